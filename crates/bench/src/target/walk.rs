//! A tree, as `find` goes through it.

use super::Client;
use crate::workload::path;
use std::ffi::CString;

/// Calls `see` with every file below a directory, as they are listed, and `after` with every
/// directory, itself the last, once all below it has been seen. The root has an empty name.
pub fn walk(
    client: &dyn Client,
    directory: &CString,
    see: &mut dyn FnMut(CString) -> Result<(), String>,
    after: &dyn Fn(&CString) -> Result<(), String>,
) -> Result<(), String> {
    let is_root = directory.is_empty();
    let listed = client.entries(if is_root { c"/" } else { directory })?;
    for entry in listed.iter() {
        let below = path([directory.as_bytes(), b"/", entry.name].concat());
        match entry.is_dir {
            true => walk(client, &below, see, after)?,
            false => see(below)?,
        }
    }
    after(directory)
}

/// Removes everything.
pub fn clear(client: &dyn Client) -> Result<(), String> {
    let remove = |directory: &CString| match directory.is_empty() {
        true => Ok(()),
        false => client.rmdir(directory),
    };
    let mut unlink = |file: CString| client.unlink(&file);
    walk(client, &CString::default(), &mut unlink, &remove)
}
