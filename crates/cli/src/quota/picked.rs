//! What `.hearth/quota/report.json` says on a mount with ro: the file holds everybody, and nothing
//! in it refuses what a question would.

use super::record::{foreign, object};
use crate::failure::Failure;
use hearth::{QuotaId, QuotaKind};
use serde_json::{Value, json};
use std::path::Path;

/// An answer of a volume that counts what it holds.
pub fn kept(answer: String, mount: &Path) -> Result<String, Failure> {
    let report = object(&answer, mount)?;
    let list = |name: &str| report[name].as_array().map_or(&[][..], Vec::as_slice);
    // A volume without quotas still knows what itself uses.
    let is_off = list("kinds").iter().all(|kind| kind["kept"] == false);
    match is_off && list("records").is_empty() {
        true => Err(off(mount)),
        false => Ok(answer),
    }
}

/// The records of `wanted` alone. Who has none uses nothing, under the limits of the kind.
pub fn of(wanted: &[QuotaId], answer: String, mount: &Path) -> Result<String, Failure> {
    let text = kept(answer, mount)?;
    let mut answer = object(&text, mount)?;
    // The report begins with the volume; what was asked for is an answer already, and its ids may
    // be others where they are mapped.
    let first = &answer["records"][0]["kind"];
    if !first.is_null() && first != QuotaKind::Volume.name() {
        return Ok(text);
    }
    let mut picked = Vec::new();
    for who in wanted {
        let records = answer["records"].as_array().ok_or_else(|| foreign(mount))?;
        let found = records
            .iter()
            .find(|record| record["kind"] == who.kind.name() && record["id"] == who.id);
        picked.push(match found {
            Some(record) => record.clone(),
            None => none(*who, &answer, mount)?,
        });
    }
    answer["records"] = picked.into();
    Ok(answer.to_string())
}

/// The record of somebody who uses nothing.
fn none(who: QuotaId, answer: &Value, mount: &Path) -> Result<Value, Failure> {
    let kinds = answer["kinds"].as_array().ok_or_else(|| foreign(mount))?;
    let named = |kind: &&Value| kind["kind"] == who.kind.name();
    let kind = kinds.iter().find(named).ok_or_else(|| foreign(mount))?;
    if kind["kept"] == false && who.kind != QuotaKind::Volume {
        return Err(off(mount));
    }
    let usage = |resource: &str| {
        let rules = &kind[resource];
        json!({
            "used": 0, "reserved": 0, "deadline": null, "warnings": 0, "own": false,
            "hard": rules["hard"], "soft": rules["soft"], "grace": rules["grace"],
        })
    };
    Ok(json!({
        "kind": who.kind.name(),
        "id": who.id,
        "enforced": kind["enforced"],
        "bytes": usage("bytes"),
        "inodes": usage("inodes"),
    }))
}

fn off(mount: &Path) -> Failure {
    let what = "keeps no quotas; mount it without noquota, a host directory with -o quota=wait";
    Failure::at(mount, what)
}
