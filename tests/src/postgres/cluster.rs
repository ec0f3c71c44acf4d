//! A server of our own: started from the installed binaries, durable, and gone with the process.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::binaries::{as_server_user, folder, make_folder, output};
use super::{blocking, create_database};

/// A Postgres server that a test has for itself, to stop and start it; [`fresh_database`](super::fresh_database) is
/// cheaper for all others.
///
/// It listens on a free port of 127.0.0.1 and on a socket in its folder, trusts everybody, and runs with `fsync`
/// on. It ends with this value, or with the process, however that ends.
#[derive(Debug)]
pub struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    watchdog: Child,
}

/// Tries to find a port that nobody takes between our look and the server's start.
const PORTS: u32 = 5;

/// Waits for the end of its input, which is the end of the process that holds the other side of the pipe, whatever
/// ended it. In a process group of its own, so that the Ctrl-C for the tests is not also for it.
const WATCHDOG: &str = r#"trap '' HUP INT TERM
cat > /dev/null
"$1" stop --pgdata "$2/data" --mode immediate --silent
rm -rf "$2""#;

impl Cluster {
    /// Starts a server.
    ///
    /// # Panics
    /// The binaries are missing, or the server does not start; shows its log.
    pub async fn start() -> Self {
        blocking(Self::launch).await
    }

    pub(super) fn launch() -> Self {
        let programs = folder();
        let folder = make_folder("durable-postgres-XXXXXX");
        let watchdog = watch(&programs, &folder);
        let mut cluster = Self { programs, folder, port: 0, watchdog };
        cluster.initialize();
        let started = (0..PORTS).any(|_| {
            cluster.configure();
            cluster.try_start()
        });
        assert!(started, "the Postgres server did not start:\n{}", cluster.log());
        cluster
    }

    /// The URL of a database by this name, over TCP.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a database by this name, over the Unix socket.
    pub fn socket_url(&self, database: &str) -> String {
        format!("postgres:///{database}?host={}&port={}&user=postgres", self.folder.display(), self.port)
    }

    /// The URL of a new, empty database.
    pub async fn fresh_database(&self) -> String {
        create_database(&self.url("postgres")).await
    }

    /// Ends all sessions and shuts down in order.
    pub async fn stop_fast(&self) {
        self.stop("fast").await;
    }

    /// Crashes: no checkpoint, recovery at the next start.
    pub async fn stop_immediate(&self) {
        self.stop("immediate").await;
    }

    /// Starts the stopped server again, at the same addresses.
    pub async fn start_again(&self) {
        let start = self.start_command();
        let started = blocking(move || output(start).status.success()).await;
        assert!(started, "the Postgres server did not start again:\n{}", self.log());
    }

    /// What the server wrote so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Holds the data, the log and the socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    async fn stop(&self, mode: &'static str) {
        let data = self.data();
        let stop = as_server_user(
            &self.programs.join("pg_ctl"),
            &["stop", "--pgdata", &data, "--mode", mode, "--wait", "--silent"],
        );
        let stopped = blocking(move || output(stop)).await;
        assert!(stopped.status.success(), "the Postgres server did not stop: {stopped:?}");
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    fn initialize(&self) {
        // Writing the new files through to the disk would only make the start slow: the server itself has `fsync` on.
        let args = [
            "--pgdata",
            &self.data(),
            "--username",
            "postgres",
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
            "--no-locale",
            "--no-sync",
            "--no-instructions",
        ];
        let done = output(as_server_user(&self.programs.join("initdb"), &args));
        let words = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "`initdb` failed (as root it needs a user `postgres`): {words}");
    }

    fn configure(&mut self) {
        self.port = free_port();
        let settings = format!(
            "\nlisten_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\nmax_connections = 200\n\
             fsync = on\nsynchronous_commit = on\nlogging_collector = off\ntimezone = 'UTC'\n",
            self.port,
            self.folder.display(),
        );
        // Later lines win, so another try with another port only adds to the file.
        let file = OpenOptions::new().append(true).open(self.folder.join("data/postgresql.conf"));
        file.and_then(|mut file| file.write_all(settings.as_bytes())).expect("the new cluster has a configuration");
    }

    fn start_command(&self) -> Command {
        let log = self.folder.join("log").display().to_string();
        as_server_user(
            &self.programs.join("pg_ctl"),
            &["start", "--pgdata", &self.data(), "--log", &log, "--wait", "--timeout", "120", "--silent"],
        )
    }

    /// False if the port was taken after all.
    fn try_start(&self) -> bool {
        let started = output(self.start_command()).status.success();
        assert!(
            started || self.log().contains("Address already in use"),
            "the Postgres server did not start:\n{}",
            self.log()
        );
        started
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        // It ends by itself; waiting only lets the next test find a quiet machine.
        drop(self.watchdog.wait());
    }
}

/// A port that nobody listens on now.
pub(super) fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("127.0.0.1 has a free port").port()
}

fn watch(programs: &Path, folder: &Path) -> Child {
    let (stop, folder) = (programs.join("pg_ctl").display().to_string(), folder.display().to_string());
    as_server_user(Path::new("sh"), &["-c", WATCHDOG, "sh", &stop, &folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("`sh` can be started")
}
