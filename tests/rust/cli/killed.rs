//! A `pack` process that is killed during its work.

use std::process::Command;
use std::time::Duration;

use zstn_tests::command::program;
use zstn_tests::rng::Rng;

use super::folder_with;

#[test]
fn a_killed_pack_leaves_nothing_under_the_final_name() {
    let mut rng = Rng(9);
    let block = rng.bf16_weights(1 << 20);
    let count = 60;
    let len = block.len() * count;
    let header = format!(
        "{{\"w\":{{\"dtype\":\"BF16\",\"shape\":[{}],\"data_offsets\":[0,{len}]}}}}",
        len / 2
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    for _ in 0..count {
        file.extend_from_slice(&block);
    }
    let folder = folder_with("big.safetensors", &file);
    let part = || {
        std::fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .find(|entry| entry.path().extension().is_some_and(|e| e == "part"))
    };
    let mut child = Command::new(program())
        .args([
            "pack",
            "big.safetensors",
            "--memory",
            "64M",
            "--effort",
            "max",
        ])
        .current_dir(folder.path())
        .spawn()
        .expect("zstn runs");
    // Wait until the start of the output is written and the rest is not.
    while part()
        .and_then(|p| p.metadata().ok())
        .is_none_or(|m| m.len() == 0)
    {
        assert!(
            child.try_wait().expect("status").is_none(),
            "packing was too fast to interrupt"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("killed"); // SIGKILL, so that no handler runs
    child.wait().expect("ended");
    assert!(!folder.path().join("big.zstn").exists());
    assert!(
        part().is_some(),
        "what was written is still under its own name"
    );
    // The next run in this folder removes the leftovers, but no files with similar
    // names.
    #[cfg(unix)]
    {
        let others = [".mine.Ab12Cd.part", ".big.zstn.Ab12Cd.00000000.zstn.part"];
        for name in others {
            std::fs::write(folder.path().join(name), b"mine").expect("written");
        }
        let left = folder.path().join(".killed.Ab12Cd.00000000.zstn.part");
        std::fs::create_dir(&left).expect("made");
        let old = std::time::SystemTime::now() - Duration::from_secs(25 * 60 * 60);
        let opened = std::fs::File::open(&left).expect("a folder");
        opened.set_modified(old).expect("an old folder");
        drop(opened);
        let out = zstn_tests::command::zstn(
            folder.path(),
            &[
                "get",
                "big.safetensors",
                "w",
                "--rows",
                "0",
                "-o",
                "row.bin",
            ],
        );
        assert!(out.status.success());
        let names = std::fs::read_dir(folder.path())
            .expect("a folder")
            .flatten();
        let mut hidden: Vec<String> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with('.'))
            .collect();
        hidden.sort();
        assert_eq!(
            hidden,
            [others[1], others[0]],
            "of this machine and old ones are gone"
        );
    }
}
