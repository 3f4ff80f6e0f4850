//! Result files of the Node.js core benchmark drivers: `run.js`, `compare.js` and `scatter.js`.
//!
//! Decides how their CSV is read and written; it must not know what is done with the figures.
//! Start at [`reader::Reader`] for rows one by one, at [`sessions::read`] for a whole session, at
//! [`rows`] for writing. [`groups`] and [`frame`] are the two shapes in which tables of large files
//! want the rows, without a session in between.

pub mod configuration;
pub mod frame;
pub mod groups;
pub mod javascript;
pub mod layout;
pub mod number;
pub mod reader;
pub mod record;
pub mod rows;
pub mod sessions;

pub use frame::Frame;
pub use groups::{Groups, Side};
pub use layout::Layout;
pub use reader::{Reader, Row};
pub use rows::Measured;
