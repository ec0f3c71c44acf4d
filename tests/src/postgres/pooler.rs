//! A transaction pooler in front of the shared server: PgBouncer, with fewer server connections than its clients want.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::binaries::{as_server_user, make_folder};
use super::cluster::free_port;
use super::{blocking, server_url};

/// How to get what is missing.
const MISSING: &str =
    "`pgbouncer` was not found on PATH or in the usual places: run `./test`, or `apt-get install pgbouncer`";

/// Runs the pooler until the end of its input, which is the end of the process that holds the other side of the pipe.
const WATCHDOG: &str = r#"trap '' HUP INT TERM
"$1" "$2/pgbouncer.ini" > "$2/log" 2>&1 &
pooler=$!
cat > /dev/null
kill -KILL "$pooler"
rm -rf "$2""#;

/// What a pooler does about the settings that a client asks for as it connects.
#[derive(Clone, Copy, Debug)]
pub enum Settings {
    /// The connection is refused: the default.
    Refused,
    /// They are dropped: `ignore_startup_parameters`.
    Dropped,
}

/// The URL of a database of the shared server, by way of a pooler in transaction mode that all tests of this process
/// share. It keeps two sessions for each database and no prepared statements.
///
/// # Panics
/// There is no PgBouncer, or it does not start; says how to install it.
pub async fn pooled(url: &str, settings: Settings) -> String {
    static PORTS: [OnceLock<u16>; 2] = [const { OnceLock::new() }; 2];
    let port = &PORTS[settings as usize];
    let server = server_url().await;
    let port = match port.get() {
        Some(port) => *port,
        None => blocking(move || *port.get_or_init(|| start(&server, settings))).await,
    };
    let (server, address) = (authority(url), format!("postgres@127.0.0.1:{port}"));
    url.replacen(server, &address, 1)
}

/// `user@host:port` of a URL.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest)
}

fn start(server: &str, settings: Settings) -> u16 {
    let program = program();
    let folder = make_folder("durable-pgbouncer-XXXXXX");
    let port = free_port();
    let (host, server_port) = authority(server)
        .rsplit('@')
        .next()
        .and_then(|address| address.split_once(':'))
        .expect("the server's URL has a host and a port");
    let ignored = match settings {
        Settings::Refused => "",
        Settings::Dropped => "ignore_startup_parameters = extra_float_digits,options\n",
    };
    let settings = format!(
        "[databases]\n* = host={host} port={server_port} user=postgres\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
         pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 2000\nserver_idle_timeout = 3\n{ignored}"
    );
    let file = folder.join("pgbouncer.ini");
    fs::write(&file, settings).expect("the new folder can be written to");
    let watchdog = as_server_user(Path::new("sh"), &["-c", WATCHDOG, "sh", &shown(&program), &shown(&folder)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("`sh` can be started");
    keep(watchdog);
    let give_up_at = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(Instant::now() < give_up_at, "PgBouncer did not start:\n{log}");
        std::thread::sleep(Duration::from_millis(20));
    }
    port
}

/// Its input closes with this process.
fn keep(watchdog: Child) {
    static KEPT: Mutex<Vec<Child>> = Mutex::new(Vec::new());
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(watchdog);
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Distributions put it where only root looks.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"].map(PathBuf::from);
    let found = std::env::split_paths(&path).chain(usual).map(|folder| folder.join("pgbouncer"));
    found.into_iter().find(|program| program.is_file()).unwrap_or_else(|| panic!("{MISSING}"))
}
