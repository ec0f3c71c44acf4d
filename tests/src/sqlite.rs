//! A SQLite file for each test, in a directory of its own, because the library keeps more files beside it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A file that does not exist yet, in a directory that goes with this value.
#[derive(Debug)]
pub struct File {
    directory: TempDir,
    path: PathBuf,
    url: String,
}

/// A database that nobody else uses.
///
/// # Panics
/// The directory for temporary files is not writable.
pub fn fresh_database() -> File {
    let directory = tempfile::Builder::new()
        .prefix("durable-sqlite-")
        .tempdir()
        .expect("the directory for temporary files is writable");
    let path = directory.path().join("durable.db");
    let url = format!("sqlite://{}", path.display());
    File { directory, path, url }
}

impl File {
    /// What the library is configured with: `sqlite:///tmp/…/durable.db`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory alone, which keeps the file alive.
    pub fn into_directory(self) -> TempDir {
        self.directory
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_file_has_a_directory_that_goes_with_it() {
        let (one, other) = (super::fresh_database(), super::fresh_database());
        assert_ne!(one.url(), other.url());
        std::fs::write(one.path(), "").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().parent().unwrap().is_dir());
    }
}
