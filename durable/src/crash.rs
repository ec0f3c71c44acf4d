//! Crash points: named places where a test lets the process be killed.
//!
//! Nothing at all unless the private feature `crash-points` is on. Layer: below everything.

/// Kills this process with SIGKILL if `DURABLE_CRASH_POINT` names this place: `name`, or `name:N` for the N-th time.
#[cfg(feature = "crash-points")]
pub(crate) fn crash_point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let wanted = WANTED.get_or_init(|| {
        let wanted = std::env::var("DURABLE_CRASH_POINT").ok()?;
        Some(match wanted.split_once(':') {
            Some((name, count)) => (name.to_owned(), count.parse().unwrap_or(1)),
            None => (wanted, 1),
        })
    });
    if let Some((wanted, count)) = wanted
        && wanted == name
        && SEEN.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

/// Kills this process with SIGKILL if `DURABLE_CRASH_POINT` names this place.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub(crate) fn crash_point(_name: &str) {}
