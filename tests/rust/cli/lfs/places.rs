//! Folders that disappear or become old while an agent runs.

use std::fs::{self, FileTimes, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

#[cfg(unix)]
use super::stored;
use super::{Agent, download, folder_with_store, lfs, unfinished, upload};

#[test]
fn a_store_that_disappears_is_not_created_anew() {
    let folder = folder_with_store();
    let (store, away) = (folder.path().join("store"), folder.path().join("away"));
    let object = folder.path().join("object");
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    assert!(agent.transfer(&upload(&object, b"x"))["error"].is_null());
    fs::rename(&store, &away).unwrap();
    let said = agent.fails(&upload(&object, b"y"));
    assert!(said.contains("mount it"), "{said}");
    assert!(!store.exists());
    let said = agent.fails(&download(b"x"));
    assert!(said.contains("mount it"), "{said}");
    fs::rename(&away, &store).unwrap();
    assert!(agent.transfer(&upload(&object, b"y"))["error"].is_null());
    assert_eq!(agent.end(), (0, String::new()));
}

// Windows does not remove a folder that contains an open file, such as the agent's
// lock.
#[cfg(unix)]
#[test]
fn a_lost_folder_of_this_machine_is_not_a_missing_object() {
    let folder = folder_with_store();
    let object = folder.path().join("object");
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    let message = upload(&object, b"x");
    assert!(agent.transfer(&message)["error"].is_null());
    fs::remove_dir_all(unfinished(folder.path())).unwrap();
    let said = agent.fails(&download(b"x"));
    assert!(said.contains("cannot create a temporary file"), "{said}");
    assert!(
        !said.contains("is not there") && !said.contains("push"),
        "{said}"
    );
    assert!(stored(&folder, message["oid"].as_str().unwrap()).exists());
    assert_eq!(agent.end().0, 0);
}

#[test]
fn old_folders_are_removed_unless_their_process_runs() {
    let folder = folder_with_store();
    let init = Command::new("git")
        .args(["init", "-q"])
        .current_dir(folder.path())
        .status();
    assert!(init.unwrap().success());
    let own = folder.path().join(".git/lfs/zstn");
    let mut agent = Agent::ready(folder.path(), &["--store", "store"]);
    let alive = unfinished(&own);
    let left = own.join("unfinished-left");
    fs::create_dir(&left).unwrap();
    for path in [&alive, &left] {
        grow_old(path);
    }
    let cleaned = lfs(folder.path(), &["filter", "clean", "x"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert!(alive.exists());
    assert!(!left.exists());
    let object = folder.path().join("object");
    assert!(agent.transfer(&upload(&object, b"x"))["error"].is_null());
    assert!(agent.transfer(&download(b"x"))["error"].is_null());
    assert_eq!(agent.end(), (0, String::new()));
}

fn grow_old(folder: &Path) {
    let past = SystemTime::now() - Duration::from_secs(48 * 60 * 60);
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        const FILE_WRITE_ATTRIBUTES: u32 = 0x100;
        const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000; // for folders
        options
            .access_mode(FILE_WRITE_ATTRIBUTES)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    }
    let opened = options.open(folder).unwrap();
    opened
        .set_times(FileTimes::new().set_modified(past))
        .unwrap();
}
