//! Migrations: the tables' versions, applied at start under a lock that ends with the transaction.
//!
//! Guarantees that processes that race at boot apply each once, and that a killed or dropped start leaves nothing
//! behind. Keeps its own version table; never touches that of `sqlx::migrate!`. Layer: store.

pub(super) mod postgres;
pub(super) mod sqlite;

use super::{Result, StoreError, StoreErrorKind};

/// One numbered step of the schema, with its text for one database.
pub(crate) struct Migration {
    pub(crate) version: i32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// Postgres; numbers and names are the same for both databases.
pub(crate) const POSTGRES: &[Migration] = &[
    Migration { version: 1, name: "init", sql: include_str!("../../../migrations/postgres/0001_init.sql") },
    Migration {
        version: 2,
        name: "steps_in_order",
        sql: include_str!("../../../migrations/postgres/0002_steps_in_order.sql"),
    },
    Migration { version: 3, name: "queues", sql: include_str!("../../../migrations/postgres/0003_queues.sql") },
];

/// SQLite.
pub(crate) const SQLITE: &[Migration] = &[
    Migration { version: 1, name: "init", sql: include_str!("../../../migrations/sqlite/0001_init.sql") },
    Migration {
        version: 2,
        name: "steps_in_order",
        sql: include_str!("../../../migrations/sqlite/0002_steps_in_order.sql"),
    },
    Migration { version: 3, name: "queues", sql: include_str!("../../../migrations/sqlite/0003_queues.sql") },
];

impl Migration {
    fn checksum(&self) -> String {
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(self.sql.as_bytes()))
    }
}

/// Whether the stored version needs work.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Current,
    /// Apply what is above this version.
    Above(i32),
}

/// # Errors
/// [`StoreErrorKind::Schema`] if the schema is newer than this build, or older with migrations off.
fn plan(migrations: &[Migration], stored: i32, migrate: bool) -> Result<Plan> {
    let needed = migrations.last().map_or(0, |migration| migration.version);
    if stored > needed {
        return Err(StoreError::new(
            StoreErrorKind::Schema,
            format!("the database has durable's schema {stored}, this build knows {needed}: update this build"),
        ));
    }
    if stored == needed {
        return Ok(Plan::Current);
    }
    if !migrate {
        return Err(StoreError::new(
            StoreErrorKind::Schema,
            format!(
                "the database has durable's schema {stored}, this build needs {needed}: start once with migrations on"
            ),
        ));
    }
    Ok(Plan::Above(stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_have_the_same_numbers_and_names() {
        let list = |migrations: &[Migration]| migrations.iter().map(|m| (m.version, m.name)).collect::<Vec<_>>();
        assert_eq!(list(POSTGRES), list(SQLITE));
    }

    #[test]
    fn a_newer_schema_and_a_missing_migration_are_refused_with_what_to_do() {
        assert!(plan(POSTGRES, 99, true).unwrap_err().to_string().contains("update this build"));
        assert!(plan(POSTGRES, 0, false).unwrap_err().to_string().contains("start once with migrations on"));
        assert_eq!(plan(POSTGRES, 0, true).unwrap(), Plan::Above(0));
    }
}
