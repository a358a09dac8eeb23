// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rkfd-gpu`: serves one model GPU on a vfio-user socket.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_model::adversary::Adversary;
use gpu_model::chips::{mi300x, Chip, Generation};
use gpu_model::engines::gmc::placement::HIVE_GPUS;
use gpu_model::engines::smu::fru::Product;
use gpu_model::gpu::{Boot, Gpu, Options};
use gpu_model::knobs::Knobs;
use gpu_model::log::{Expectation, Strict};
use gpu_model::trace::{Detail, Trace};
use gpu_model::{control, relay, server};

/// Exit code of a run with violations by the guest.
const EXIT_STRICT: u8 = 3;
/// Exit code of a run in which a knob or an `--expect` was not used as given.
const EXIT_UNUSED: u8 = 4;
/// Exit code of a bug in the model.
const EXIT_BUG: i32 = 101;
/// Time until an event is in the file of the log at the latest.
const FLUSH: Duration = Duration::from_millis(100);

fn help() -> String {
    let chips: Vec<&str> = Chip::all().iter().map(|c| c.name).collect();
    let vram: Vec<String> = Chip::all()
        .iter()
        .map(|c| format!("{}G {}", c.default_vram >> 30, c.name))
        .collect();
    let mut text = format!(
        "rkfd-gpu: a software AMD GPU as a vfio-user PCI device

usage: rkfd-gpu --socket PATH [options]

  --socket PATH        vfio-user socket to listen on (required)
  --chip NAME          card to emulate: {} (default {})
  --vram SIZE          video memory in bytes, or with K, M or G; a multiple of 2M from 64M
                       (default: {})
  --hive-node N        the card is GPU N (0 to {}) of an xGMI hive, and no other one answers
                       (default: no hive; gfx9 only)
  --vbios SIZE         the card has an expansion ROM with a VBIOS, which reserves SIZE at the end
                       of video memory for the boot firmware (default: no VBIOS, as passed to a
                       virtual machine; gfx9 only)
  --firmware-memory SIZE
                       the firmware uses SIZE at a quarter of video memory, besides the end,
                       reported by the PSP only (default: none; gfx12 only)
  --bad-page ADDRESS   the memory has RAS, and the EEPROM of the card lists the row of ADDRESS in
                       video memory as bad, in mode NPS1; may repeat (mi300x, mi300x-1xcc only)
  --fru FIELD=TEXT     product data in the FRU EEPROM of the board, 0 or 2 to 63 characters; FIELD
                       is manufacturer, name, number, version, serial, asset or id; may repeat
                       (gfx9 only)
  --boot cold|warm     cold: only the PSP boot loader runs, as after a power cycle (default);
                       warm: the secure OS runs and all firmware is loaded, as left by another
                       driver
  --trace FILE         event log: one line `t_ns layer event key=value...` per event
  --trace-detail NAME  also log: registers (every access), walks (of page tables), mqds (when
                       loaded); may be repeated
  --control PATH       control socket; one command per line: set NAME VALUE, get NAME,
                       hits NAME, stats, knobs, trace DETAIL on|off, mark TEXT,
                       walk HUB VMID ADDRESS
  --adversary SEED     caches and delays that silicon has: stores of the host to VRAM stay in a
                       buffer until an HDP flush, so that the guest cannot map VRAM; stores to
                       BARs arrive late; page directories are cached; shaders access memory
                       through caches; invalidations, the SMU, RLC safe mode, HWS and MES take
                       up to 4 ms. SEED selects the choices
  --knob NAME=VALUE    fault injection from the start (list below); may be repeated
  --expect [COUNT:]PATTERN
                       STRICT lines equal to PATTERN, in which * is any text, do not fail the
                       run; COUNT is how many there must be: N, N-M or N- (default 1-); may be
                       repeated
  --cached-memory      the guest caches all of its memory: a PTE of it without SNOOPED is a
                       violation
  --dma-messages       send writes of the card to bus addresses that are not guest memory to
                       the client (DMA_WRITE), which passes them through its IOMMU to another
                       device or back to the card
  --keep               serve another client after a disconnect
  --dump-discovery FILE  write the IP discovery binary and exit
  --dump-registers     print the register map and exit
  --help               print this text

QEMU: -device '{{\"driver\":\"vfio-user-pci\",\"socket\":{{\"path\":\"PATH\",\"type\":\"unix\"}}}}'
with guest memory in a shared memory backend (memory-backend-memfd,share=on).

Exits when the client disconnects. Exit status: 0; {EXIT_STRICT} after violations by the guest
(lines `STRICT: ...` on standard error, other than --expect ones); {EXIT_UNUSED} if a --knob never injected its
fault or an --expect matched fewer lines than expected; 1 on a usage or system error.

knobs:
",
        chips.join(", "),
        mi300x::CHIP.name,
        vram.join(", "),
        HIVE_GPUS - 1,
    );
    for (name, what) in Knobs::LIST {
        text += &format!("  {name:<24} {what}\n");
    }
    text
}

#[derive(Default)]
struct Args {
    socket: Option<PathBuf>,
    control: Option<PathBuf>,
    chip: Option<&'static Chip>,
    vram: Option<u64>,
    hive_node: Option<u8>,
    vbios: Option<u64>,
    firmware_memory: Option<u64>,
    bad_pages: Vec<u64>,
    fru: Vec<String>,
    boot: Option<Boot>,
    trace: Option<PathBuf>,
    details: Vec<Detail>,
    adversary: Option<u64>,
    knobs: Vec<(String, u64)>,
    expect: Vec<Expectation>,
    dma_messages: bool,
    cached_memory: bool,
    keep: bool,
    dump_discovery: Option<PathBuf>,
    dump_registers: bool,
    help: bool,
}

fn parse_args(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args::default();
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                (name.to_string(), Some(value.to_string()))
            }
            _ => (word, None),
        };
        let mut value = || {
            inline
                .clone()
                .or_else(|| words.next())
                .ok_or(format!("{name} needs a value"))
        };
        match name.as_str() {
            "--socket" => args.socket = Some(value()?.into()),
            "--control" => args.control = Some(value()?.into()),
            "--trace" => args.trace = Some(value()?.into()),
            "--dump-discovery" => args.dump_discovery = Some(value()?.into()),
            "--expect" => {
                let text = value()?;
                let parsed = Expectation::parse(&text).ok_or(format!("{text}: not a count"))?;
                args.expect.push(parsed);
            }
            "--trace-detail" => {
                let name = value()?;
                let detail = Detail::by_name(&name).ok_or(format!("no detail {name}"))?;
                args.details.push(detail);
            }
            "--chip" => {
                let chip = value()?;
                args.chip = Some(Chip::by_name(&chip).ok_or(format!("no chip {chip}"))?);
            }
            "--vram" => {
                let text = value()?;
                args.vram = Some(parse_size(&text).ok_or(format!("{text}: not a size"))?);
            }
            "--adversary" => {
                let text = value()?;
                let seed = text.parse().map_err(|_| format!("{text}: not a seed"))?;
                args.adversary = Some(seed);
            }
            "--hive-node" => {
                let text = value()?;
                let node = text.parse().ok().filter(|node| *node < HIVE_GPUS);
                args.hive_node = Some(node.ok_or(format!("{text}: 0 to {}", HIVE_GPUS - 1))?);
            }
            "--vbios" => {
                let text = value()?;
                args.vbios = Some(parse_size(&text).ok_or(format!("{text}: not a size"))?);
            }
            "--firmware-memory" => {
                let text = value()?;
                let size = parse_size(&text).ok_or(format!("{text}: not a size"))?;
                args.firmware_memory = Some(size);
            }
            "--bad-page" => {
                let text = value()?;
                let address = parse_size(&text).ok_or(format!("{text}: not an address"))?;
                args.bad_pages.push(address);
            }
            "--fru" => args.fru.push(value()?),
            "--boot" => {
                args.boot = Some(match value()?.as_str() {
                    "cold" => Boot::Cold,
                    "warm" => Boot::Warm,
                    other => return Err(format!("--boot {other}: cold or warm")),
                });
            }
            "--knob" => {
                let text = value()?;
                let (name, number) = text
                    .split_once('=')
                    .ok_or(format!("{text}: not NAME=VALUE"))?;
                let number = control::parse(number).ok_or(format!("{text}: not a number"))?;
                args.knobs.push((name.into(), number));
            }
            "--dma-messages" => args.dma_messages = true,
            "--cached-memory" => args.cached_memory = true,
            "--keep" => args.keep = true,
            "--dump-registers" => args.dump_registers = true,
            "--help" | "-h" => args.help = true,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(args)
}

fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) if text.ends_with('K') => (digits, 10),
        Some(digits) if text.ends_with('M') => (digits, 20),
        Some(digits) => (digits, 30),
        None => (text, 0),
    };
    let size = control::parse(digits)?.checked_mul(1 << shift)?;
    (size % (2 << 20) == 0 && (64 << 20..=1 << 40).contains(&size)).then_some(size)
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(message) => {
            eprintln!("rkfd-gpu: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let args = parse_args(std::env::args().skip(1)).map_err(|e| format!("{e} (see --help)"))?;
    if args.help {
        print!("{}", help());
        return Ok(ExitCode::SUCCESS);
    }
    let chip = args.chip.unwrap_or(&mi300x::CHIP);
    let boot = args.boot.unwrap_or(Boot::Cold);
    if args.hive_node.is_some() && chip.generation != Generation::Gfx9 {
        return Err(format!("--hive-node: {} has no xGMI", chip.name));
    }
    let vram = args.vram.unwrap_or(chip.default_vram);
    if args.vbios.is_some() && chip.generation != Generation::Gfx9 {
        return Err(format!("--vbios: {} has one of its own", chip.name));
    }
    if args
        .vbios
        .is_some_and(|size| size >= vram || size % 1024 != 0)
    {
        return Err("--vbios: not a multiple of 1K below the size of video memory".into());
    }
    if args.firmware_memory.is_some() && chip.generation != Generation::Gfx12 {
        return Err(format!("--firmware-memory: not on {}", chip.name));
    }
    if args
        .firmware_memory
        .is_some_and(|size| size > vram / 4 || size % (1 << 20) != 0)
    {
        return Err(
            "--firmware-memory: not a multiple of 1M up to a quarter of video memory".into(),
        );
    }
    if !args.bad_pages.is_empty() && chip.pci_ids != mi300x::CHIP.pci_ids {
        return Err(format!(
            "--bad-page: the rows of {} are not known",
            chip.name
        ));
    }
    if args.bad_pages.iter().any(|address| *address >= vram) {
        return Err("--bad-page: beyond the video memory".into());
    }
    let mut product = chip.product.map(Product::new);
    for setting in &args.fru {
        let product = product.as_mut();
        let product = product.ok_or(format!("--fru: {} has no FRU EEPROM", chip.name))?;
        let result = product.set(setting);
        result.map_err(|why| format!("--fru {setting}: {why}"))?;
    }
    let trace = match &args.trace {
        Some(path) => Trace::to_file(path).map_err(|e| format!("{}: {e}", path.display()))?,
        None => Trace::off(),
    };
    for detail in args.details {
        trace.set(detail, true);
    }
    let knobs = Knobs::default();
    for (name, value) in &args.knobs {
        if !knobs.set(name, *value) {
            return Err(format!("no knob {name} (see --help)"));
        }
    }
    let gpu = Gpu::new(Options {
        chip,
        vram,
        hive_node: args.hive_node,
        vbios: args.vbios,
        firmware_memory: args.firmware_memory,
        bad_pages: args.bad_pages,
        product,
        boot,
        strict: Arc::new(Strict::new(args.expect)),
        trace: Arc::new(trace),
        knobs: Arc::new(knobs),
        adversary: args.adversary.map(|seed| Arc::new(Adversary::new(seed))),
        cached_memory: args.cached_memory,
    })
    .map_err(|e| format!("cannot create the card: {e}"))?;
    if let Some(path) = &args.dump_discovery {
        let binary =
            gpu_model::discovery::binary(chip, gpu.memory.partitions(&gpu).as_ref(), false);
        std::fs::write(path, binary).map_err(|e| format!("{}: {e}", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dump_registers {
        print!("{}", gpu.regs.listing());
        return Ok(ExitCode::SUCCESS);
    }
    let socket = args.socket.ok_or("--socket is needed (see --help)")?;
    if args.dma_messages && args.keep {
        return Err("--dma-messages: not with --keep".into());
    }
    let mut server = socket.clone();
    if args.dma_messages {
        server.as_mut_os_string().push(".server");
        relay::start(&socket, &server, gpu.clone())
            .map_err(|e| format!("{}: {e}", socket.display()))?;
    }
    if gpu.trace.enabled() {
        flush_regularly(gpu.trace.clone());
    }
    serve(&gpu, &server, args.control.as_deref(), args.keep)?;
    gpu.check_interrupts();
    let (bad, expected_count) = (gpu.strict.unexpected(), gpu.strict.expected_count());
    gpu.trace.flush();
    eprintln!("rkfd-gpu: client disconnected; {}", gpu.stats());
    if gpu.ih.is_enabled() {
        eprintln!("rkfd-gpu: RUNNING: the interrupt ring is enabled");
    }
    if gpu.dma.is_master() {
        eprintln!("rkfd-gpu: MASTER: bus mastering is enabled");
    }
    let mut code = ExitCode::SUCCESS;
    for (pattern, count) in gpu.strict.uses() {
        eprintln!("rkfd-gpu: {count} STRICT lines like '{pattern}'");
    }
    for (pattern, least, count) in gpu.strict.missing() {
        eprintln!("rkfd-gpu: UNUSED: {count} instead of {least} STRICT lines like '{pattern}'");
        code = ExitCode::from(EXIT_UNUSED);
    }
    for (name, value) in args.knobs.iter().filter(|(_, value)| *value != 0) {
        let hits = gpu.knobs.hits(name).unwrap_or_default();
        eprintln!("rkfd-gpu: knob {name}={value} injected {hits} faults");
        if hits == 0 {
            eprintln!("rkfd-gpu: UNUSED: knob {name}={value} injected no fault");
            code = ExitCode::from(EXIT_UNUSED);
        }
    }
    if bad != 0 {
        eprintln!("rkfd-gpu: {bad} STRICT lines (and {expected_count} expected ones)");
        code = ExitCode::from(EXIT_STRICT);
    }
    Ok(code)
}

fn serve(
    gpu: &Arc<Gpu>,
    socket: &std::path::Path,
    control: Option<&std::path::Path>,
    keep: bool,
) -> Result<(), String> {
    end_on_panic(gpu.clone());
    if let Some(path) = control {
        control::serve(path, gpu.clone()).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let (done, finished) = mpsc::channel();
    for n in 0..gpu.xccs.len() {
        let (engine, done) = (gpu.clone(), done.clone());
        std::thread::Builder::new()
            .name(format!("cp{n}"))
            .spawn(move || {
                engine.xccs[n].cp.run(&engine);
                let _ = done.send(());
            })
            .map_err(|e| e.to_string())?;
    }
    let engine = gpu.clone();
    std::thread::Builder::new()
        .name("psp".into())
        .spawn(move || engine.psp.run(&engine))
        .map_err(|e| e.to_string())?;
    let engine = gpu.clone();
    std::thread::Builder::new()
        .name("nbio".into())
        .spawn(move || engine.selfring.run(&engine))
        .map_err(|e| e.to_string())?;
    for n in 0..gpu.sdma.count() {
        let engine = gpu.clone();
        std::thread::Builder::new()
            .name(format!("sdma{n}"))
            .spawn(move || engine.sdma.run(&engine, n))
            .map_err(|e| e.to_string())?;
    }
    let listener = server::listen(socket, gpu).map_err(|e| format!("{}: {e}", socket.display()))?;
    let mut device = server::Device::new(gpu.clone());
    loop {
        if let Err(e) = listener.run(&mut device) {
            eprintln!("rkfd-gpu: connection ended: {e}");
        }
        if !keep {
            break;
        }
        device.disconnect();
    }
    gpu.xccs.iter().for_each(|xcc| xcc.cp.stop());
    gpu.sdma.stop();
    gpu.psp.stop();
    gpu.selfring.stop();
    // A shader that never ends must not keep the process alive; process exit ends it.
    let end = Instant::now() + Duration::from_secs(2);
    for _ in &gpu.xccs {
        let _ = finished.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
    if let Some(path) = control {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Flushes the event log periodically until the process ends, so that it is complete without new
/// events.
fn flush_regularly(trace: Arc<Trace>) {
    std::thread::spawn(move || loop {
        std::thread::sleep(FLUSH);
        trace.flush();
    });
}

/// Ends the process on a panic, which is a bug in the model: the guest would otherwise wait forever
/// for the lost thread.
fn end_on_panic(gpu: Arc<Gpu>) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        eprintln!("rkfd-gpu: bug in the model, exiting");
        gpu.trace.try_flush();
        std::process::exit(EXIT_BUG);
    }));
}
