//! What a call is called and where it stands, as its row shows it. Layer: workflow.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use super::step::StepMeta;
use crate::model::Site;

thread_local! {
    /// By the addresses of the call's place and of the name: the places of a program are few, and each row has them.
    static SITES: RefCell<HashMap<(usize, usize, u32), Arc<Site>>> = RefCell::default();
}

/// The texts of a call, made once for each thread.
pub(super) fn of(call: &'static Location<'static>, meta: &StepMeta) -> Arc<Site> {
    let key = (std::ptr::from_ref(call) as usize, meta.name.as_ptr() as usize, meta.line);
    SITES.with_borrow_mut(|sites| {
        let site = sites.entry(key).or_insert_with(|| {
            Arc::new(Site {
                step_name: meta.name.into(),
                call: call.to_string().into(),
                definition: format!("{}:{}:{}", meta.file, meta.line, meta.column).into(),
            })
        });
        Arc::clone(site)
    })
}
