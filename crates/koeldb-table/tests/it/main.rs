//! Tables as a whole, through the crate's public face.

mod sst_dump;
mod write_speed;
