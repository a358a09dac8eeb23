// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Oversubscription: more queues and processes than slots and VMIDs.

use std::time::{Duration, Instant};

use super::super::code;
use super::*;

#[test]
fn hundred_queues_of_ten_processes() {
    let mut bench = Bench::ready();
    for n in 0..100 {
        bench.hw.work.insert(doorbell(n), 40);
        bench.add(n % 10 + 1, n);
    }
    bench.hw.done.clear();
    let start = Instant::now();
    while bench.hw.work.values().any(|left| *left != 0) {
        bench.turn();
        assert!(bench.hw.user() <= 4);
        let vmids: BTreeSet<u8> = bench.hw.mapped.values().map(|m| m.load.vmid).collect();
        let pasids: BTreeSet<u16> = bench.hw.mapped.values().map(|m| m.load.pasid).collect();
        assert_eq!(vmids.len(), pasids.len(), "a VMID for each process");
        std::thread::sleep(Duration::from_micros(200));
        assert!(start.elapsed() < Duration::from_secs(30), "a queue starves");
    }
    // No queue is done before all have started.
    let first_done = (0..100)
        .map(doorbell)
        .map(|d| bench.hw.done.iter().rposition(|x| *x == d).unwrap());
    let last_begun = (0..100)
        .map(doorbell)
        .map(|d| bench.hw.done.iter().position(|x| *x == d).unwrap());
    assert!(last_begun.max().unwrap() < bench.hw.done.len() / 2);
    assert!(first_done.min().unwrap() > 0);
    for n in 0..100 {
        assert_eq!(bench.send(0, &remove_queue(n)), 1);
    }
    bench.turn();
    assert_eq!((bench.hw.user(), bench.strict()), (0, 0));
}

#[test]
fn isolated_processes_take_turns() {
    use mes::misc_change_config as cc;
    let mut bench = Bench::ready();
    let limit = frame(&cc::FRAME, |w| cc::LIMIT_SINGLE_PROCESS.set(w, 1));
    assert_eq!(bench.send(1, &limit), 1);
    for n in 0..2 {
        bench.hw.work.insert(doorbell(n), 40);
        bench.add(n + 1, n);
    }
    let start = Instant::now();
    while bench.hw.work.values().any(|left| *left != 0) {
        bench.turn();
        assert!(bench.hw.user() <= 1, "queues of two processes");
        std::thread::sleep(Duration::from_micros(200));
        assert!(start.elapsed() < Duration::from_secs(30), "a queue starves");
    }
    let done = &bench.hw.done;
    let changes = done.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 1, "{done:?}");
    let no_limit = frame(&cc::FRAME, |_| {});
    assert_eq!(bench.send(1, &no_limit), 1);
    for n in 0..2 {
        bench.hw.work.insert(doorbell(n), 40);
        bench.mes.doorbell(&bench.hw, doorbell(n), 1);
    }
    for _ in 0..10 {
        bench.turn();
    }
    assert_eq!((bench.hw.user(), bench.strict()), (2, 0));
}

/// A process of `/dev/kfd` and a file of the render node may share an address space, with contexts
/// and VMIDs of their own.
#[test]
fn two_owners_share_a_pasid() {
    use mes::add_queue as aq;
    let mut bench = Bench::ready();
    bench.add(1, 0);
    let mut second = add_queue(2, 1);
    aq::PROCESS_ID.set(&mut second, aq::PROCESS_ID.get(&add_queue(1, 0)));
    bench.mqd(1);
    assert_eq!(bench.fails(&second), code::EXISTS);
    let before = bench.strict();
    for field in [aq::IS_KFD_PROCESS, aq::TRAP_EN] {
        field.set(&mut second, 0);
    }
    for field in [aq::TRAP_HANDLER_ADDR, aq::TMA_ADDR] {
        field.set(&mut second, 0);
    }
    assert_eq!(bench.send(0, &second), 1);
    let vmids: BTreeSet<u8> = bench.hw.mapped.values().map(|m| m.load.vmid).collect();
    assert_eq!((vmids.len(), bench.strict()), (2, before));
}

#[test]
fn idle_queue_is_remapped_by_doorbell() {
    let mut bench = Bench::ready();
    for n in 0..4 {
        bench.add(1, n);
    }
    assert_eq!(bench.hw.user(), 4);
    bench.hw.work.insert(doorbell(4), 1000);
    bench.add(1, 4);
    let has = |bench: &Bench, n: u32| {
        bench
            .hw
            .mapped
            .values()
            .any(|m| m.load.doorbell == doorbell(n))
    };
    for _ in 0..10 {
        bench.turn();
    }
    assert!(has(&bench, 4));
    let out = (0..4).find(|n| !has(&bench, *n)).unwrap();
    for _ in 0..10 {
        bench.turn();
        assert!(!has(&bench, out), "it has nothing to do");
    }
    assert!(bench.mes.doorbell(&bench.hw, doorbell(out), 1));
    bench.hw.work.insert(doorbell(out), 1000);
    for _ in 0..10 {
        bench.turn();
    }
    assert!(has(&bench, out) && has(&bench, 4));
    assert!(
        !bench.mes.doorbell(&bench.hw, doorbell(77), 1),
        "not a queue of ours"
    );
    // The aggregated doorbell makes the firmware poll write pointers.
    let out = (0..4).find(|n| !has(&bench, *n)).unwrap();
    let sel = Selector {
        me: 3,
        ..Selector::default()
    };
    let control = gc::CP_MES_DOORBELL_CONTROL1__DOORBELL_EN.mask
        | gc::CP_MES_DOORBELL_CONTROL1__DOORBELL_OFFSET.put(0x402);
    let reg = gc::regCP_MES_DOORBELL_CONTROL2.into();
    bench
        .hw
        .env
        .mes()
        .reg_write(bench.hw.env.strict(), sel, reg, control);
    assert!(bench.mes.doorbell(&bench.hw, 0x402, 1));
    for _ in 0..10 {
        bench.turn();
    }
    assert!(!has(&bench, out), "its write pointer did not move");
    bench.hw.env.put64(mqd_at(out) + 0x2038, 5);
    bench.hw.work.insert(doorbell(out), 1000);
    assert!(bench.mes.doorbell(&bench.hw, 0x402, 1));
    for _ in 0..10 {
        bench.turn();
    }
    assert!(has(&bench, out));
    assert_eq!(bench.strict(), 0);
}

#[test]
fn higher_priority_ignores_the_quantum() {
    let mut bench = Bench::ready();
    for n in 0..4 {
        bench.hw.work.insert(doorbell(n), 1_000_000);
        bench.mqd(n);
        let mut words = add_queue(1, n);
        mes::add_queue::PROCESS_QUANTUM.set(&mut words, 100_000_000);
        assert_eq!(bench.send(0, &words), 1);
    }
    bench.hw.work.insert(doorbell(4), 1_000_000);
    bench.mqd(4);
    let mut words = add_queue(1, 4);
    mes::add_queue::PROCESS_QUANTUM.set(&mut words, 100_000_000);
    mes::add_queue::INPROCESS_GANG_PRIORITY.set(&mut words, mes::priority::HIGH.into());
    assert_eq!(bench.send(0, &words), 1);
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(1));
        bench.turn();
    }
    assert!(bench
        .hw
        .mapped
        .values()
        .any(|m| m.load.doorbell == doorbell(4)));
}

#[test]
fn suspended_gangs_are_not_scheduled() {
    use mes::{resume as re, suspend as su};
    let mut bench = Bench::ready();
    for n in 0..2 {
        bench.hw.work.insert(doorbell(n), 1_000_000);
        bench.add(1, n);
    }
    let one = frame(&su::FRAME, |w| {
        su::GANG_CONTEXT_ADDR.set(w, mqd_at(0) + 0x1000);
        su::SUSPEND_FENCE_ADDR.set(w, SCRATCH + 0x40);
        su::SUSPEND_FENCE_VALUE.set(w, 9);
    });
    assert_eq!(bench.send(0, &one), 1);
    assert_eq!(bench.hw.env.get32(SCRATCH + 0x40), 9);
    bench.turn();
    assert_eq!(bench.hw.user(), 1);
    let all = frame(&su::FRAME, |w| su::SUSPEND_ALL_GANGS.set(w, 1));
    assert_eq!(bench.send(0, &all), 1);
    bench.turn();
    assert_eq!(bench.hw.user(), 0);
    let resume = frame(&re::FRAME, |w| re::RESUME_ALL_GANGS.set(w, 1));
    assert_eq!(bench.send(0, &resume), 1);
    bench.turn();
    assert_eq!(bench.hw.user(), 2);
    let unknown = frame(&re::FRAME, |w| re::GANG_CONTEXT_ADDR.set(w, SCRATCH));
    assert_eq!(bench.fails(&unknown), code::NOT_FOUND);
}

#[test]
fn hung_queue_is_reset() {
    use mes::reset as re;
    let mut bench = Bench::ready();
    for n in 0..2 {
        bench.hw.work.insert(doorbell(n), 1_000_000);
        bench.add(1, n);
    }
    bench.hw.stuck.insert(doorbell(1));
    assert_eq!(bench.fails(&remove_queue(1)), code::TIMEOUT);
    let detect = |then: bool| {
        frame(&re::FRAME, |w| {
            match then {
                true => re::HANG_DETECT_THEN_RESET.set(w, 1),
                false => re::HANG_DETECT_ONLY.set(w, 1),
            }
            re::QUEUE_TYPE.set(w, mes::queue_type::COMPUTE.into());
            re::DOORBELL_OFFSET_ADDR.set(w, HUNG);
        })
    };
    assert_eq!(bench.send(0, &detect(false)), 1);
    let count = 4 + 12;
    let list: Vec<u32> = (0..2 * count)
        .map(|n| bench.hw.env.get32(HUNG + n * 4))
        .collect();
    assert_eq!(list[0], doorbell(1));
    assert_eq!(list.iter().filter(|d| **d != mes::NO_DOORBELL).count(), 2);
    let place = list[count as usize];
    assert_eq!(
        mes::HUNG_QUEUE_TYPE.get(place),
        u32::from(mes::queue_type::COMPUTE)
    );
    let slot = Slot::new(0, mes::HUNG_PIPE.get(place), mes::HUNG_HQD.get(place));
    assert_eq!(bench.hw.mapped[&slot].load.doorbell, doorbell(1));
    let reset = frame(&re::FRAME, |w| {
        re::RESET_QUEUE_ONLY.set(w, 1);
        re::QUEUE_TYPE.set(w, mes::queue_type::COMPUTE.into());
        re::DOORBELL_OFFSET.set(w, doorbell(1));
    });
    assert_eq!(bench.send(0, &reset), 1);
    assert_eq!(bench.hw.resets, [doorbell(1)]);
    for _ in 0..5 {
        bench.turn();
    }
    assert_eq!(bench.hw.user(), 1, "what was reset does not come back");
    let mut remove = remove_queue(1);
    mes::remove_queue::REMOVE_QUEUE_AFTER_RESET.set(&mut remove, 1);
    assert_eq!(bench.send(0, &remove), 1);
    let mut early = remove_queue(0);
    mes::remove_queue::REMOVE_QUEUE_AFTER_RESET.set(&mut early, 1);
    assert_eq!(bench.fails(&early), code::STATE, "the other was not reset");
    assert_eq!(bench.send(0, &detect(true)), 1);
    assert_eq!(bench.hw.env.get32(HUNG), mes::NO_DOORBELL);
    assert_eq!(bench.send(0, &remove_queue(0)), 1);
}
