//! One incarnation of an executor: its lease rows, writers and sign of life. A process that was declared dead comes
//! back as another. Layer: executor.

use std::sync::Arc;

use super::liveness::{Liveness, Roster};
use super::settings::Settings;
use crate::clock::Reading;
use crate::registry::Registry;
use crate::store::executor::BeatQuestion;
use crate::store::{Lease, Store, StoreError, StoreErrorKind};
use crate::writer::{Health, Writer};

/// One incarnation of an executor.
pub(crate) struct Identity {
    pub(crate) executor_id: Arc<str>,
    pub(super) claim_lease: Lease,
    writers: Vec<Writer>,
    pub(super) liveness: Arc<Liveness>,
    pub(crate) health: Arc<Health>,
    /// The database's time at the first beat.
    pub(super) first_reading: Reading,
}

impl Identity {
    /// Registers a new executor, takes its lock, and starts its writers.
    pub(super) async fn register(
        store: &Arc<dyn Store>,
        settings: &Settings,
        registry: &Registry,
        roster: Roster,
    ) -> Result<Arc<Self>, StoreError> {
        let executor_id = uuid::Uuid::now_v7().to_string();
        let registration = store.register(&executor_id, &settings.name).await?;
        let health = Arc::new(Health::default());
        let question = BeatQuestion {
            grace: settings.grace,
            lease: settings.lease,
            watching: std::time::Duration::ZERO,
            served: Arc::clone(&registry.served),
            queues: settings.queues.clone(),
        };
        let connection = store.liveness(&registration, settings.listen);
        let liveness = Liveness::start(connection, question, settings.heartbeat, Arc::clone(&health), roster).await?;
        let first_reading = liveness.heard.borrow().reading;
        let mut leases = registration.leases.into_iter();
        let claim_lease =
            leases.next().ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, "the executor has no lease rows"))?;
        debug_assert_eq!(claim_lease.writer, crate::store::CLAIM_WRITER);
        let writers = leases.map(|lease| Writer::start(store.writer(lease), Arc::clone(&health))).collect();
        Ok(Arc::new(Self {
            executor_id: registration.executor_id,
            claim_lease,
            writers,
            liveness,
            health,
            first_reading,
        }))
    }

    /// The writer that a workflow is bound to.
    pub(super) fn writer(&self, workflow_id: &str) -> &Writer {
        let hash = xxhash_rust::xxh3::xxh3_64(workflow_id.as_bytes());
        let n = usize::try_from(hash % self.writers.len() as u64).unwrap_or(0);
        &self.writers[n]
    }

    /// True if user code of this incarnation may be polled.
    pub(super) fn may_poll(&self) -> bool {
        !self.health.is_lost() && self.liveness.is_fresh()
    }
}
