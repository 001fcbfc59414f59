//! Writes the generated files.

mod kubernetes;

pub(crate) fn run() -> anyhow::Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (path, text) = kubernetes::tables()?;
    std::fs::write(root.join(&path), text)?;
    println!("{}", path.display());
    Ok(())
}

/// Generated files that are stale, each as a sentence.
pub(crate) fn check() -> anyhow::Result<Vec<String>> {
    Ok(Vec::new())
}
