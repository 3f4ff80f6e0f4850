//! The one integration binary; each module tells one story about the whole program.

mod layers;
mod process;
mod size;
