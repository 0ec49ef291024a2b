//! Tables as a whole, through the crate's public face.

#[cfg(test)]
mod sst_dump;
#[cfg(test)]
mod write_speed;
