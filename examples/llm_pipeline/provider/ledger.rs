//! The file of `--calls`: how often each idempotency key was asked for, over all runs and processes.
//!
//! Guarantees that a call is in the file before it is answered, whenever a process is killed, and that several
//! processes can share the file. The content is one JSON object from key to count. Layer: below `stand_in`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::atomic;

#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    /// Beside the file, since the file itself is replaced at each count. The system frees it with the process.
    lock: PathBuf,
}

impl Ledger {
    /// The file as it is, or an empty one.
    ///
    /// # Errors
    /// If it holds something else, or can't be written: now rather than at the first call.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let ledger = Self { path: path.to_owned(), lock: lock.into() };
        ledger.change(|_| {}).with_context(|| format!("cannot count calls in `{shown}`"))?;
        Ok(ledger)
    }

    /// Adds one. Blocks for as long as another process counts.
    pub(super) fn count(&self, key: &str) -> io::Result<()> {
        self.change(|counts| *counts.entry(key.to_owned()).or_default() += 1)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, u64>)) -> io::Result<()> {
        let lock = fs::File::create(&self.lock)?;
        lock.lock()?;
        let mut counts = match fs::read(&self.path) {
            Ok(content) if content.trim_ascii().is_empty() => BTreeMap::new(),
            Ok(content) => serde_json::from_slice(&content)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        change(&mut counts);
        let mut content = serde_json::to_vec_pretty(&counts)?;
        content.push(b'\n');
        atomic::replace(&self.path, &content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> BTreeMap<String, u64> {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn counts_are_merged_with_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.json");
        fs::write(&path, r#"{"a": 2}"#).unwrap();
        for key in ["a", "b"] {
            Ledger::open(&path).unwrap().count(key).unwrap();
        }
        assert_eq!(read(&path), BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 1)]));
    }

    #[test]
    fn no_count_is_lost_between_writers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.json");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let ledger = Ledger::open(&path).unwrap();
                    for _ in 0..25 {
                        ledger.count("k").unwrap();
                    }
                });
            }
        });
        assert_eq!(read(&path)["k"], 100);
    }

    #[test]
    fn a_file_of_something_else_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.json");
        fs::write(&path, "[1]").unwrap();
        let error = format!("{:#}", Ledger::open(&path).unwrap_err());
        assert!(error.contains("cannot count calls in") && error.contains("notes.json"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"[1]");
    }
}
