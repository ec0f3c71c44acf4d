//! What this process used so far.

/// Processor time of this process, in microseconds; zero where the system does not say.
pub(crate) fn cpu_us() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return 0.0 };
    // Fields after the name, which is in parentheses; ticks are hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks * 10_000.0
}

/// Resident memory in MiB; zero where the system does not say.
pub(crate) fn rss_mib() -> f64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0.0 };
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0.0);
    kib / 1024.0
}
