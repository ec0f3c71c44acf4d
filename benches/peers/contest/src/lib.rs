//! The works of the comparison, the same for every contestant: what is done, how often, and where the clock starts and
//! stops. A contestant only says how its library runs a workflow of no-op steps: see [`Contestant`].

mod answer;
mod contestant;
mod crowd;
mod lap;
mod measure;
mod setting;
mod work;

pub use answer::Answer;
pub use contestant::{Contestant, Target};
pub use lap::{body, end};
pub use measure::main;
pub use setting::setting;
pub use work::{Shape, Store, Work, all, named, names};
