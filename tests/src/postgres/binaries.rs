//! Where the server's programs are, and as whom they run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The user that the server runs as when the tests run as root, because it refuses to be root.
const USER: &str = "postgres";

/// How to get what is missing.
const MISSING: &str = "PostgreSQL's `initdb` and `pg_ctl` were not found on PATH, in the usual places, or by \
                       `pg_config`: run `./test`, or `apt-get install postgresql`";

/// The folder with `initdb` and `pg_ctl`.
///
/// # Panics
/// There is none; says how to get one.
pub(super) fn folder() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| complete(folder));
    on_path.or_else(newest_installed).or_else(from_pg_config).unwrap_or_else(|| panic!("{MISSING}"))
}

fn complete(folder: &Path) -> bool {
    ["initdb", "pg_ctl"].iter().all(|program| folder.join(program).is_file())
}

/// Distributions keep versions side by side, outside PATH.
fn newest_installed() -> Option<PathBuf> {
    const PLACES: [(&str, &str); 5] = [
        ("/usr/lib/postgresql", ""),
        ("/usr", "pgsql-"),
        ("/usr/libexec", "postgresql"),
        ("/opt/homebrew/opt", "postgresql@"),
        ("/usr/local/opt", "postgresql@"),
    ];
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for (place, prefix) in PLACES {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let version = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
            let folders = [entry.path().join("bin"), entry.path()];
            if let (Some(version), Some(folder)) = (version, folders.into_iter().find(|folder| complete(folder))) {
                found.push((version, folder));
            }
        }
    }
    found.into_iter().max().map(|(_, folder)| folder)
}

fn from_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    complete(&folder).then_some(folder)
}

/// True if the tests run as root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program as the user that the server runs as: `postgres` for root, everybody else as they are.
pub(super) fn as_server_user(program: &Path, args: &[&str]) -> Command {
    let mut command;
    if !is_root() {
        command = Command::new(program);
        command.args(args);
    } else if Path::new("/usr/sbin/runuser").exists() || Path::new("/sbin/runuser").exists() {
        command = Command::new("runuser");
        command.args(["-u", USER, "--"]).arg(program).args(args);
    } else {
        let words = std::iter::once(program.to_str().unwrap_or_default()).chain(args.iter().copied());
        let line: Vec<String> = words.map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        command = Command::new("su");
        command.args([USER, "-s", "/bin/sh", "-c", &line.join(" ")]);
    }
    // Settings of the developer's own clients must not reach the server, and `/` can be entered by every user.
    for variable in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS", "PGSERVICE"] {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C").current_dir("/");
    command
}

/// A new folder that the server's user owns, with a path short enough for a socket. `name` ends with `XXXXXX`.
pub(super) fn make_folder(name: &str) -> PathBuf {
    let parent = if is_root() { PathBuf::from("/tmp") } else { std::env::temp_dir() };
    let template = parent.join(name).display().to_string();
    let made = output(as_server_user(Path::new("mktemp"), &["-d", &template]));
    let words = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "can't make a folder for a server (as root that needs a user `postgres`): {words}");
    PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
}

/// Runs a command to its end and gives what it wrote.
///
/// # Panics
/// It can't be started.
pub(super) fn output(mut command: Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(error) => panic!("can't run {command:?}: {error}"),
    }
}
