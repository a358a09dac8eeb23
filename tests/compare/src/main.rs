// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rkfd-compare`: compares the behaviour of two drivers.
//!
//! Reads the logs of one boot per driver: the output of `compare` in the guest and the event log of
//! the GPU model. Differences are looked up in a list of intended ones.

mod decode;
mod guest;
mod intended;
mod report;
mod tables;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use guest::Guest;
use intended::Intended;
use trace::Trace;

const HELP: &str = "rkfd-compare: accesses of two drivers to the same GPU, side by side

usage: rkfd-compare [--sysfs] --intended FILE NAME=FOLDER [NAME=FOLDER]
       rkfd-compare --steps NAME=FOLDER...

  NAME=FOLDER   a driver and the logs of its boot, out.log and gpu.trace; the differences of
                the first from the second are reported
  --intended FILE
                reStructuredText whose definition lists name the intended differences; may repeat
  --sysfs       reports the files in sysfs only
  --steps       prints the accesses of each step only, of any number of boots

Exit status: 0; 2 if there are unintended differences; 1 on any other error.
";

/// Exit status of a report with unintended differences.
const UNEXPLAINED: u8 = 2;

/// Boot of one driver.
pub struct Run {
    /// Name of the driver.
    pub name: String,
    /// Output of the guest.
    pub guest: Guest,
    /// Event log of the GPU model.
    pub trace: Trace,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(message) => {
            eprintln!("rkfd-compare: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let mut intended = String::new();
    let (mut steps, mut sysfs) = (false, false);
    let mut folders = Vec::new();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            "--steps" => steps = true,
            "--sysfs" => sysfs = true,
            "--intended" => {
                let path = PathBuf::from(words.next().ok_or("--intended needs a file")?);
                intended += &read(path)?;
            }
            _ => {
                let (name, folder) = word.split_once('=').ok_or(format!("{word}: see --help"))?;
                folders.push((name.to_string(), PathBuf::from(folder)));
            }
        }
    }
    if folders.is_empty() || folders.len() > 2 && !steps {
        return Err("one or two drivers, see --help".into());
    }
    let intended = Intended::parse(&intended);
    let mut runs = Vec::new();
    for (name, folder) in folders {
        let guest = Guest::parse(&read(folder.join("out.log"))?);
        if !guest.done {
            let why = guest.failed.as_deref().unwrap_or("it did not complete");
            return Err(format!("{name}: the workload failed: {why}"));
        }
        let trace = Trace::parse(&read(folder.join("gpu.trace"))?, &guest.marks);
        runs.push(Run { name, guest, trace });
    }
    if steps {
        print!("{}", tables::sections(&runs));
        return Ok(ExitCode::SUCCESS);
    }
    let report = match sysfs {
        true => report::Report::of_sysfs(&runs, intended),
        false => report::Report::new(&runs, intended),
    };
    let (text, unexplained) = report.finish();
    print!("{text}");
    Ok(match unexplained {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(UNEXPLAINED),
    })
}
