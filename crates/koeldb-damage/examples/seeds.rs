//! Writes the seeds of fuzz targets: `seeds CORPUS [TARGET...]`.
//!
//! Creates a folder for each target, by default for all.

use std::path::Path;

use koeldb_base::{Error, Result};
use koeldb_damage::TARGETS;
use koeldb_fs::{FileSystem, PosixFileSystem, Purpose, WriteOptions};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((corpus, chosen)) = arguments.split_first() else {
        return Err(Error::invalid_argument("usage: seeds CORPUS [TARGET...]"));
    };
    let fs = PosixFileSystem::new();
    for target in TARGETS {
        if !chosen.is_empty() && !chosen.iter().any(|name| name == target.name) {
            continue;
        }
        let folder = Path::new(corpus).join(target.name);
        fs.create_dir_all(&folder)?;
        for (index, seed) in (target.seeds)().into_iter().enumerate() {
            let path = folder.join(format!("seed-{index:04}"));
            if !fs.exists(&path)? {
                let mut file = fs.create(&path, &WriteOptions::new(Purpose::Open))?;
                file.append(&seed)?;
                file.close()?;
            }
        }
    }
    Ok(())
}
