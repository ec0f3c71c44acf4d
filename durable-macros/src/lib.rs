//! The attributes of `durable`.
