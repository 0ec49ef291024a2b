//! A nightly backup to another disk: the newest seven are kept, and the last one is restored.
//!
//! `cargo run --example nightly_backup`

use koeldb::{
    BackupEngine, BackupEngineOptions, CreateBackupOptions, Db, Options, RestoreOptions, Result,
};

fn main() -> Result<()> {
    let directory =
        std::env::temp_dir().join(format!("koeldb-nightly-backup-{}", std::process::id()));
    let mut options = Options::new();
    options.create_if_missing(true);
    let db = Db::open(&options, directory.join("db"))?;

    let mut engine_options = BackupEngineOptions::new();
    engine_options.set_backup_rate_limit(64 << 20);
    let backups = BackupEngine::open(directory.join("backups"), &engine_options)?;
    for night in 1..=9 {
        db.put(format!("visits of day {night}"), "17")?;

        // Writers go on. Tables that an earlier backup has are not copied again.
        let mut how = CreateBackupOptions::new();
        how.set_flush_before_backup(true)
            .set_app_metadata(format!("night {night}"));
        let id = backups.create_new_backup_opt(&db, &how)?;
        backups.verify_backup(id, true)?;
        backups.purge_old_backups(7)?;
    }
    for backup in backups.backups() {
        let note = String::from_utf8_lossy(&backup.app_metadata).into_owned();
        println!(
            "backup {} of {note}: {} bytes",
            backup.backup_id, backup.size
        );
    }

    let latest = backups.backups().last().map_or(0, |last| last.backup_id);
    let target = directory.join("restored");
    let report = backups.restore(latest, &target, &target, &RestoreOptions::new())?;
    println!("restored {} files", report.copied_files);
    let restored = Db::open(&options, &target)?;
    assert_eq!(restored.range(..).count(), 9);
    drop((db, backups, restored));
    remove(&directory);
    Ok(())
}

fn remove(directory: &std::path::Path) {
    let _ = std::fs::remove_dir_all(directory);
}
