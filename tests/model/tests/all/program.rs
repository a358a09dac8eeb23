// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rkfd-gpu` as a program: options, control socket, exit codes.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use vfio_user::Client;

/// Undeclared register address.
const NOWHERE: u64 = 0x1f_0000;

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rkfd-gpu"));
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

struct Run {
    child: Option<Child>,
    folder: PathBuf,
}

impl Run {
    fn start(name: &str, args: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("rkfd-gpu-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let socket = folder.join("gpu");
        let mut command = program(&["--vram", "256M", "--socket", socket.to_str().unwrap()]);
        let child = command.args(args).current_dir(&folder).spawn().unwrap();
        let run = Self {
            child: Some(child),
            folder,
        };
        run.wait_for(&socket);
        run
    }

    fn wait_for(&self, path: &Path) {
        let start = Instant::now();
        while !path.exists() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "no {}",
                path.display()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Connects; the socket exists a moment before it accepts connections.
    fn connect(&self) -> Client {
        let start = Instant::now();
        loop {
            match Client::new(&self.folder.join("gpu")) {
                Ok(client) => return client,
                Err(e) => assert!(start.elapsed() < Duration::from_secs(20), "{e:?}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn finish(&mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_lists_all_options_and_knobs() {
    let out = program(&["--help"]).output().unwrap();
    assert!(out.status.success());
    let help = text(&out.stdout);
    for word in [
        "--socket",
        "--chip",
        "--trace",
        "--control",
        "--knob",
        "--expect",
        "--keep",
        "--vram",
        "hws.no_preempt",
        "hws.fence_never",
        "ih.drop_msi",
        "discovery.bad_checksum",
        "mi300x",
    ] {
        assert!(help.contains(word), "{word}");
    }
}

#[test]
fn bad_usage_prints_one_line() {
    for (args, complaint) in [
        (&["--frobnicate"][..], "unknown option --frobnicate"),
        (&[][..], "--socket is needed"),
        (&["--chip", "mi25"][..], "no chip mi25"),
        (&["--vram", "65M"][..], "65M: not a size"),
        (&["--knob", "a.b=1", "--socket", "/x"][..], "no knob a.b"),
        (&["--socket"][..], "--socket needs a value"),
        (&["--socket", "/nonexistent/gpu"][..], "/nonexistent/gpu"),
    ] {
        let out = program(args).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        let err = text(&out.stderr);
        assert!(err.contains(complaint), "{args:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn exit_0_without_violations() {
    let mut run = Run::start("quiet", &["--trace", "trace"]);
    let mut client = run.connect();
    let mut id = [0; 4];
    client.region_read(7, 0, &mut id).unwrap();
    assert_eq!(u32::from_le_bytes(id), 0x74a1_1002);
    client.reset().unwrap();
    client.shutdown().unwrap();
    let out = run.finish();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let lines = std::fs::read_to_string(run.folder.join("trace")).unwrap();
    let line = lines
        .lines()
        .find(|l| l.contains("pci device_reset"))
        .unwrap();
    line.split(' ').next().unwrap().parse::<u64>().unwrap();
}

#[test]
fn exit_status_tells_violations_and_unused_expectations() {
    let cases = [
        ("0-:nothing like it", 3),
        ("undeclared register", 3),
        ("regs: read of undeclared register *", 0),
        ("2:regs: read of undeclared register *", 4),
    ];
    for (n, (expect, code)) in cases.into_iter().enumerate() {
        let mut run = Run::start(&format!("strict{n}"), &["--expect", expect]);
        let mut client = run.connect();
        client.region_read(5, NOWHERE, &mut [0; 4]).unwrap();
        client.shutdown().unwrap();
        let out = run.finish();
        let err = text(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{err}");
        assert!(
            err.contains("STRICT: regs: read of undeclared register 0x7c000"),
            "{err}"
        );
        assert_eq!(err.contains("UNUSED: "), n == 1 || n == 3, "{err}");
    }
}

#[test]
fn exit_4_on_a_knob_that_injects_nothing() {
    for (knob, code) in [("discovery.bad_checksum=1", 0), ("sdma.hang=30", 4)] {
        let mut run = Run::start(&format!("knob{code}"), &["--knob", knob]);
        run.connect().shutdown().unwrap();
        let out = run.finish();
        let err = text(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{err}");
        assert_eq!(err.contains("injected no fault"), code == 4, "{err}");
    }
}

#[test]
fn keep_serves_next_client_with_reset_card() {
    let mut run = Run::start("keep", &["--keep"]);
    let scratch = u64::from(0xa000u32 + 0x2040) * 4;
    for _ in 0..3 {
        let mut client = run.connect();
        let mut value = [1; 4];
        client.region_read(5, scratch, &mut value).unwrap();
        assert_eq!(value, [0; 4]);
        client.region_write(5, scratch, &[7; 4]).unwrap();
        client.shutdown().unwrap();
    }
    assert!(run.child.as_mut().unwrap().try_wait().unwrap().is_none());
}

#[test]
fn knobs_change_at_run_time() {
    let mut run = Run::start(
        "control",
        &["--control", "control", "--knob", "ih.drop_msi=0x3"],
    );
    let control = run.folder.join("control");
    run.wait_for(&control);
    let stream = UnixStream::connect(&control).unwrap();
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    let mut request = |line: &str| {
        writeln!(&stream, "{line}").unwrap();
        let mut reply = String::new();
        replies.read_line(&mut reply).unwrap();
        reply.trim().to_string()
    };
    assert_eq!(request("get ih.drop_msi"), "3");
    assert_eq!(request("set ih.drop_msi 5"), "ok");
    assert_eq!(request("get ih.drop_msi"), "5");
    assert_eq!(request("hits ih.drop_msi"), "0");
    assert_eq!(request("set hws.fence_never 1"), "ok");
    assert!(request("set no.such 1").starts_with("error: no knob"));
    assert!(request("set ih.drop_msi x").starts_with("error: x is not"));
    assert!(request("dance").starts_with("error: commands are"));
    assert!(request("knobs").contains("discovery.bad_checksum"));
    assert!(request("stats").contains("register_reads=0"));
    let client = run.connect();
    client.shutdown().unwrap();
    // The knob of the command line was set, and never used.
    assert_eq!(run.finish().status.code(), Some(4));
}
