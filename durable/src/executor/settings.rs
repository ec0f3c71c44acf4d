//! Durations and limits, with their defaults. Layer: executor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::ids::check_key;
use crate::model::QueueLimits;
use crate::workflow::Limits;

/// What a runtime is set to.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) grace: Duration,
    pub(crate) lease: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) poll: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) start_timeout: Duration,
    pub(crate) max_recoveries: u32,
    pub(crate) max_running: usize,
    pub(crate) limits: Limits,
    /// Whether other processes' words of new work are listened to.
    pub(crate) listen: bool,
    /// The queues to claim from; `None` for all.
    pub(crate) queues: Option<Arc<[String]>>,
    /// Queues and limits that the program names.
    pub(crate) declared: BTreeMap<String, QueueLimits>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "durable".to_owned(),
            grace: Duration::from_secs(3),
            lease: Duration::from_secs(30),
            heartbeat: Duration::from_secs(1),
            poll: Duration::from_secs(1),
            cancel_grace: Duration::from_secs(5),
            start_timeout: Duration::from_secs(30),
            max_recoveries: 20,
            max_running: 1_000,
            limits: Limits { payload_warn: 256 << 10, payload_max: 16 << 20 },
            listen: true,
            queues: None,
            declared: BTreeMap::new(),
        }
    }
}

/// What is added to a moment has to be one.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

impl Settings {
    /// # Errors
    /// [`ErrorKind::Configuration`] for settings that contradict each other.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let durations = [
            ("heartbeat", self.heartbeat),
            ("grace", self.grace),
            ("lease", self.lease),
            ("poll", self.poll),
            ("cancel_grace", self.cancel_grace),
            ("start_timeout", self.start_timeout),
        ];
        let problem = if let Some((name, _)) = durations.iter().find(|(_, duration)| *duration > LONGEST) {
            format!("{name} must be a year at most")
        } else if self.heartbeat.is_zero() || self.poll.is_zero() {
            "heartbeat and poll must be longer than zero".to_owned()
        } else if self.grace < self.heartbeat * 2 {
            format!(
                "grace {:?} must be at least two heartbeats of {:?}: one missed beat is not a death",
                self.grace, self.heartbeat
            )
        } else if self.lease < self.grace {
            format!("lease {:?} must be at least as long as grace {:?}", self.lease, self.grace)
        } else if self.max_running == 0 {
            "max_running must be at least 1".to_owned()
        } else if self.limits.payload_max == 0 {
            "payload_max must be at least 1 byte".to_owned()
        } else {
            let names = self.declared.keys().chain(self.queues.iter().flat_map(|queues| queues.iter()));
            for name in names {
                check_key("queue", name)?;
            }
            let mut problems =
                self.declared.iter().filter_map(|(name, limits)| limits.problem().map(|why| (name, why)));
            match problems.next() {
                Some((name, why)) => format!("limits of queue `{name}`: {why}"),
                None => return Ok(()),
            }
        };
        Err(Error::new(ErrorKind::Configuration, problem))
    }
}
