//! Compiles the recorder of the conflict checker.

fn main() {
    println!("cargo:rerun-if-changed=src/recorder.c");
    #[cfg(feature = "recorder")]
    cc::Build::new()
        .file("src/recorder.c")
        .opt_level(2)
        // Its comparison loops must not become calls of the functions that they replace.
        .flag("-fno-builtin")
        .flag("-fno-tree-loop-distribute-patterns")
        .compile("hearth_recorder");
}
