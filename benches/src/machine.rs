//! What the figures were taken on.

/// Cores and memory: `2 cores, 24 GiB`.
pub(crate) fn words() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: f64 = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0.0);
    format!("{cores} cores, {:.0} GiB", kib / f64::from(1 << 20))
}
