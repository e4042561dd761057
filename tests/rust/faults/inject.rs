//! Prepares faults of inputs, outputs, streams and the process: named pipes, a nearly
//! full disk, and a run that is ready to start with its fault in place.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use serde::Deserialize;
use zstn_tests::rng::Rng;
use zstn_tests::unreadable;

use crate::process::{Launch, Stream};
use crate::scratch::Cell;
use crate::verb_table::Verb;

/// The faults that can be prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    // Faults of inputs.
    Missing,
    Folder,
    Empty,
    Cut,
    CutHeader,
    Noise,
    Unreadable,
    UnreadablePage,
    IdlePipe,
    InputSocket,
    Device,
    Pipe,
    CutPipe,
    Link,
    LinkLoop,
    NotUnicode,
    ControlCharacters,
    TruncatedMeanwhile,
    OverwrittenMeanwhile,
    ReplacedMeanwhile,
    // Faults of outputs.
    Exists,
    Forced,
    IsFolder,
    IsInput,
    IsHardLink,
    IsSymbolicLink,
    OutputPipe,
    ClosedPipe,
    Socket,
    OutputLinkLoop,
    Dangling,
    NoFolder,
    UnderFile,
    ReadOnlyFolder,
    FullDevice,
    FullDisk,
    FileLimit,
    OutputNotUnicode,
    // Faults of streams and of the environment.
    FullStdout,
    BrokenStdout,
    ClosedStdout,
    ClosedStdin,
    ClosedStderr,
    FullStderr,
    NoTemporaryFolder,
    FullTemporaryFolder,
    // Faults of the process.
    Interrupt,
    Terminate,
    HangUp,
    Kill,
    TwoWriters,
    // Very large inputs.
    ManyTensors,
    LongHeader,
    // Faults of servers.
    PortTaken,
}

const NOT_UNICODE: &[u8] = b"\xff\xfe";

impl Act {
    /// Sets up the fault for a verb in the cell's folder. Returns `None` if this
    /// machine cannot produce the fault.
    pub fn prepare(self, cell: &Cell, verb: &Verb) -> Option<Setup> {
        let mut setup = Setup {
            arguments: verb.arguments.iter().map(Into::into).collect(),
            launch: Launch::default(),
            input: verb.input.clone().unwrap_or_default(),
            output: verb.output.clone().unwrap_or_default(),
            lands: None,
            received: None,
            meanwhile: None,
            socket: None,
            disk: None,
        };
        let input = cell.work().join(&setup.input);
        let output = cell.work().join(setup.output.trim_end_matches('/'));
        match self {
            Self::Missing => match input.is_dir() {
                true => fs::remove_dir_all(&input).expect("removed"),
                false => fs::remove_file(&input).expect("removed"),
            },
            Self::Folder => {
                fs::remove_file(&input).expect("removed");
                fs::create_dir(&input).expect("made");
            }
            Self::Empty => fs::write(&input, b"").expect("written"),
            Self::Cut => cut(&input, |len| len / 2),
            Self::CutHeader => cut(&input, |_| 5),
            Self::Noise => fs::write(&input, Rng(3).bytes(5000)).expect("written"),
            Self::Unreadable => {
                let none = fs::Permissions::from_mode(0o000);
                fs::set_permissions(&input, none).expect("permissions");
                setup.launch.as_nobody = true;
            }
            Self::UnreadablePage => {
                let page = unreadable::middle(&input);
                setup.launch.unreadable = Some((input, page));
            }
            Self::IdlePipe => {
                fs::remove_file(&input).expect("removed");
                make_pipe(&input);
            }
            Self::InputSocket => {
                fs::remove_file(&input).expect("removed");
                setup.socket = Some(UnixListener::bind(&input).expect("a socket"));
            }
            Self::Device => {
                fs::remove_file(&input).expect("removed");
                symlink("/dev/zero", &input).expect("linked");
            }
            Self::Pipe | Self::CutPipe => {
                let mut bytes = fs::read(&input).expect("read");
                if self == Self::CutPipe {
                    bytes.truncate(bytes.len() / 2);
                }
                fs::remove_file(&input).expect("removed");
                make_pipe(&input);
                write_pipe(input, bytes);
            }
            Self::Link => {
                let real = cell.work().join("real");
                fs::rename(&input, &real).expect("renamed");
                symlink(&real, &input).expect("linked");
            }
            Self::LinkLoop => {
                fs::remove_file(&input).expect("removed");
                symlink(input.file_name().expect("a name"), &input).expect("linked");
            }
            Self::NotUnicode => {
                let name = [NOT_UNICODE, setup.input.as_bytes()].concat();
                let name = OsString::from_vec(name);
                fs::rename(&input, cell.work().join(&name)).expect("renamed");
                setup.input = name.display().to_string();
                setup.replace(&verb.input, &name);
            }
            Self::ControlCharacters => {
                let name = OsString::from(format!("\x1b[31m\n{}", setup.input));
                setup.replace(&verb.input, &name);
                setup.input.insert_str(0, "\\u{1b}[31m\\n");
            }
            Self::TruncatedMeanwhile | Self::OverwrittenMeanwhile | Self::ReplacedMeanwhile => {
                setup.meanwhile = Some(self);
            }
            Self::Exists => fs::write(&output, b"mine").expect("written"),
            Self::Forced => {
                fs::write(&output, b"mine").expect("written");
                setup.arguments.push("--force".into());
            }
            Self::IsFolder => {
                fs::create_dir(&output).expect("made");
                fs::write(output.join("mine"), b"mine").expect("written");
                let extension = output.extension().unwrap_or_default();
                let name = Path::new(&setup.input).with_extension(extension);
                setup.lands = Some(Path::new(&setup.output).join(name));
            }
            Self::IsInput | Self::IsHardLink | Self::IsSymbolicLink => {
                // `convert` chooses the output format by the file extension.
                let end = setup.output.split_once('.').map_or("", |(_, end)| end);
                let name = PathBuf::from(format!("same.{end}"));
                let name = match self {
                    Self::IsInput => setup.input.clone().into(),
                    Self::IsHardLink => {
                        fs::hard_link(&input, cell.work().join(&name)).expect("linked");
                        name.into_os_string()
                    }
                    _ => {
                        symlink(&input, cell.work().join(&name)).expect("linked");
                        name.into_os_string()
                    }
                };
                setup.output_is(verb, name);
                setup.arguments.push("--force".into());
            }
            Self::OutputPipe | Self::ClosedPipe => {
                make_pipe(&output);
                setup.received = Some(read_pipe(output, self == Self::ClosedPipe));
            }
            Self::Socket => {
                setup.socket = Some(UnixListener::bind(&output).expect("a socket"));
                setup.arguments.push("--force".into());
            }
            Self::OutputLinkLoop => {
                symlink(output.file_name().expect("a name"), &output).expect("linked");
            }
            Self::Dangling => {
                let there = cell.work().join("there");
                fs::create_dir(&there).expect("made");
                symlink(there.join("new"), &output).expect("linked");
                setup.lands = Some("there/new".into());
            }
            Self::NoFolder => setup.output_is(verb, format!("missing/{}", setup.output).into()),
            Self::UnderFile => {
                fs::write(cell.work().join("file"), b"mine").expect("written");
                setup.output_is(verb, format!("file/{}", setup.output).into());
            }
            Self::ReadOnlyFolder => {
                let folder = cell.work().join("closed");
                fs::create_dir(&folder).expect("made");
                let closed = fs::Permissions::from_mode(0o555);
                fs::set_permissions(&folder, closed).expect("permissions");
                setup.launch.as_nobody = true;
                setup.output_is(verb, format!("closed/{}", setup.output).into());
            }
            Self::FullDevice => {
                let name = output
                    .with_file_name("full")
                    .with_extension(output.extension().unwrap_or_default());
                symlink("/dev/full", &name).expect("linked");
                setup.output_is(verb, name.file_name().expect("a name").into());
            }
            Self::FullDisk => {
                let folder = cell.work().join("disk");
                fs::create_dir(&folder).expect("made");
                setup.disk = Some(Disk::mount(&folder)?);
                setup.output_is(verb, format!("disk/{}", setup.output).into());
            }
            Self::FileLimit => setup.launch.shell = Some("ulimit -f 1"),
            Self::OutputNotUnicode => {
                let name = OsString::from_vec([NOT_UNICODE, setup.output.as_bytes()].concat());
                setup.output_is(verb, name.clone());
                setup.lands = Some(name.into());
            }
            Self::FullStdout => setup.launch.stdout = Some(Stream::Full),
            Self::BrokenStdout => setup.launch.stdout = Some(Stream::Broken),
            Self::ClosedStdout => setup.launch.shell = Some("exec >&-"),
            Self::ClosedStdin => setup.launch.shell = Some("exec <&-"),
            Self::ClosedStderr => setup.launch.shell = Some("exec 2>&-"),
            Self::FullStderr => setup.launch.shell = Some("exec 2>/dev/full"),
            Self::NoTemporaryFolder => setup.launch.tmp = Some(cell.own("missing")),
            Self::FullTemporaryFolder => {
                let folder = cell.own("disk");
                fs::create_dir(&folder).expect("made");
                setup.disk = Some(Disk::mount(&folder)?);
                setup.launch.tmp = Some(folder);
            }
            Self::Interrupt
            | Self::Terminate
            | Self::HangUp
            | Self::Kill
            | Self::TwoWriters
            | Self::ManyTensors
            | Self::LongHeader
            | Self::PortTaken => {}
        }
        // The test opens the file for standard input itself, under its current name.
        setup.launch.stdin = verb.stdin.as_ref().map(|name| match name == &setup.input {
            true => input_path(cell, &setup),
            false => cell.work().join(name),
        });
        Some(setup)
    }
}

/// Creates a named pipe.
pub fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

/// Writes to a named pipe from a new thread, which may wait for a reader for ever.
pub fn write_pipe(path: PathBuf, bytes: Vec<u8>) {
    std::thread::spawn(move || {
        if let Ok(mut pipe) = File::options().write(true).open(path) {
            let _ = pipe.write_all(&bytes);
        }
    });
}

/// Reads a named pipe to its end, or closes it after the first bytes if `closes` is
/// set.
pub fn read_pipe(path: PathBuf, closes: bool) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let Ok(mut pipe) = File::open(path) else {
            return bytes;
        };
        if closes {
            let _ = pipe.read(&mut [0; 10]);
        } else {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// A mounted tmpfs of a few blocks, which is unmounted when dropped.
pub struct Disk(PathBuf);

impl Disk {
    /// Mounts the disk at a folder and fills it. Returns `None` if mounting is not
    /// permitted.
    pub fn mount(folder: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=12k,mode=777", "none"])
            .arg(folder)
            .stderr(Stdio::null());
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        let disk = is_mounted.then(|| Self(folder.into()))?;
        // Fill the disk.
        let mut file = File::create(folder.join("full")).expect("a file");
        while file.write_all(&[0; 512]).is_ok() {}
        Some(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A run that is ready to start.
pub struct Setup {
    /// The command-line arguments.
    pub arguments: Vec<OsString>,
    /// Options for starting the run.
    pub launch: Launch,
    /// The input's name as messages show it.
    pub input: String,
    /// The output's name as messages show it.
    pub output: String,
    /// The path where the output appears, if it differs from the given one.
    pub lands: Option<PathBuf>,
    /// The thread that reads the pipe used as the output.
    pub received: Option<JoinHandle<Vec<u8>>>,
    /// The change to make once the input is open.
    pub meanwhile: Option<Act>,
    /// A socket that stays bound until the end of the run.
    pub socket: Option<UnixListener>,
    /// A disk that stays mounted until the end of the run.
    pub disk: Option<Disk>,
}

/// Returns the path of the input under its current name.
pub fn input_path(cell: &Cell, setup: &Setup) -> PathBuf {
    cell.work().join(&setup.input)
}

/// Truncates a file to the length that `len` computes from its current length.
pub fn cut(path: &Path, len: impl FnOnce(u64) -> u64) {
    let file = File::options().write(true).open(path).expect("opened");
    let len_bytes = file.metadata().expect("its length").len();
    file.set_len(len(len_bytes)).expect("cut");
}

impl Setup {
    /// Replaces an argument with `name`.
    pub fn replace(&mut self, argument: &Option<String>, name: &OsString) {
        for word in &mut self.arguments {
            if argument.as_ref().is_some_and(|old| word == old.as_str()) {
                word.clone_from(name);
            }
        }
    }

    /// Makes the verb write to `name`.
    pub fn output_is(&mut self, verb: &Verb, name: OsString) {
        self.replace(&verb.output, &name);
        self.output = name.display().to_string();
    }
}
