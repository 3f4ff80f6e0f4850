//! Pieces of code: started by the harness of their language, measured by its workers.
//!
//! What is said is the same for every language (`commands.rs`), and so is what the answers mean
//! (`measured.rs`). Languages differ in how their process is started, which [`start`] decides; those that
//! are compiled get a program of their own first (`built.rs`). Start at [`harness`].

mod beam;
mod built;
mod commands;
mod live;
mod made;
mod measured;
mod once;
pub mod sh;
mod shared;
mod start;
mod timeline;

pub use super::compile::Failed;
pub use live::{Answer, Gone, Live};
pub use once::{concurrency, failure_of, fold_warning, observation};
pub use shared::{Shared, expected};
pub use start::{start, usual_program};

use super::Harness;
use once::OneLiner;
use speedwell_model::Language;

/// The harness for code in that language.
pub fn harness(language: Language) -> &'static dyn Harness {
    static ALL: [OneLiner; Language::ALL.len()] = {
        let mut all = [OneLiner(Language::Sh); Language::ALL.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = OneLiner(Language::ALL[at]);
            at += 1;
        }
        all
    };
    let own = ALL.iter().find(|one| one.0 == language);
    own.unwrap_or(&ALL[0])
}
