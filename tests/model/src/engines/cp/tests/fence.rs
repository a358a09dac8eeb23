// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Fences of packets: their actions on the L2, and their order.

use gpu_wave::{Isa, Memory, Scope, WaveSlots};

use super::super::env::ShaderMemory;
use super::super::testing::Mock;
use super::aql::{start, GATE_OPEN, KERNARG};
use super::*;
use crate::engines::gmc::cu::{Cache, CuNumber, Via};

/// Returns the acts on the L2.
pub(super) fn on_l2(acts: &[Act]) -> Vec<&Act> {
    let is = |act: &&Act| matches!(act, Act::WriteBack(_) | Act::InvalidateL2(_) | Act::FlushL2);
    acts.iter().filter(is).collect()
}

/// Returns the acts on the caches of the CUs.
pub(super) fn on_cus(acts: &[Act]) -> Vec<&Act> {
    let is = |act: &&Act| matches!(act, Act::InvalidateCus(_) | Act::MayInvalidateCus);
    acts.iter().filter(is).collect()
}

#[test]
fn scopes_of_aql_packets() {
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &[ENDPGM]);
        card.mock().add_l2();
        let scopes = [Scope::Wave, Scope::Agent, Scope::System];
        for (acquire, release) in (0..9).map(|n| (n / 3, n % 3)) {
            for kind in [header::TYPE_KERNEL_DISPATCH, header::TYPE_BARRIER_AND] {
                let signal = card.signal(0, 0);
                let mut packet = match kind {
                    header::TYPE_BARRIER_AND => [0; 64],
                    _ => dispatch(kernel, 0, 1, signal, false),
                };
                let head = kind | (acquire as u32) << 9 | (release as u32) << 11;
                packet[..2].copy_from_slice(&(head as u16).to_le_bytes());
                packet[abi_aql::COMPLETION_SIGNAL..].copy_from_slice(&signal.to_le_bytes());
                card.mock().acts();
                card.submit(user, &packet);
                card.until("signal", |c| c.signal_value(signal) == 0);
                card.settle();
                let acts = card.mock().acts();
                let mut expected = Vec::new();
                if acquire != 0 {
                    expected.push(Act::InvalidateL2(scopes[acquire]));
                }
                if release != 0 {
                    let act = Act::WriteBack(scopes[release]);
                    let is_signal = |a: &Act| matches!(a, Act::Write(to, _) if *to == signal + 8);
                    let released = acts.iter().position(|a| *a == act);
                    assert!(released.unwrap() < acts.iter().position(is_signal).unwrap());
                    expected.push(act);
                }
                assert_eq!(on_l2(&acts), expected.iter().collect::<Vec<_>>());
                let cus = match acquire {
                    0 => Act::MayInvalidateCus,
                    _ => Act::InvalidateCus(Cache::ALL.to_vec()),
                };
                assert_eq!(on_cus(&acts), [&cus]);
                if acquire != 0 {
                    // A line that is filled in between would have stale data of the L2.
                    let at = |act: &Act| acts.iter().position(|a| a == act);
                    assert!(at(&Act::InvalidateL2(scopes[acquire])) < at(&cus));
                }
            }
        }
        card.assert_clean();
    });
}

#[test]
fn a_kernel_that_runs_is_not_released() {
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &GATE);
        card.mock().add_l2();
        let signal = card.signal(0, 0);
        card.submit(user, &dispatch(kernel, KERNARG, 1, signal, false));
        card.settle();
        let system = Act::WriteBack(Scope::System);
        assert!(!card.mock().acts().contains(&system));
        card.mock().put32(GATE_OPEN, 1);
        card.until("signal", |c| c.signal_value(signal) == 0);
        assert!(card.mock().acts().contains(&system));
    });
}

#[test]
fn actions_of_pm4_packets() {
    with_card(|card| {
        card.start_kiq();
        card.mock().add_l2();
        let (flush, write_back) = (Act::FlushL2, Act::WriteBack(Scope::System));
        for (release, acquire, expected) in [
            (0, 0, None),
            // TCL1 alone.
            (1 << 16, 1 << 22, None),
            // TC_WB, with TC_NC.
            (1 << 15 | 1 << 19, 1 << 18 | 1 << 3, Some(&write_back)),
            // TC and TC_WB.
            (1 << 17 | 1 << 15, 1 << 23 | 1 << 18, Some(&flush)),
        ] {
            card.mock().acts();
            let event = 0x14 | 5 << 8 | release;
            card.kiq(&[
                pm4::header(op::RELEASE_MEM, 7),
                event,
                1 << 29,
                0x1000,
                0,
                1,
                0,
                0,
            ]);
            card.settle();
            let released = card.mock().acts();
            card.kiq(&[
                pm4::header(op::ACQUIRE_MEM, 6),
                acquire,
                !0,
                // CP_COHER_SIZE_HI has 8 bits; the others have no effect.
                !0,
                0,
                0,
                10,
            ]);
            card.settle();
            let acquired = card.mock().acts();
            for acts in [&released, &acquired] {
                assert_eq!(on_l2(acts), expected.into_iter().collect::<Vec<_>>());
            }
        }
        card.assert_clean();
    });
}

#[test]
fn packets_name_the_caches_of_cus() {
    with_card(|card| {
        card.start_kiq();
        card.mock().add_l2();
        let event = 0x14 | 5 << 8;
        let release = |actions: u32| {
            let head = pm4::header(op::RELEASE_MEM, 7);
            vec![head, event | actions, 1 << 29, 0x1000, 0, 1, 0, 0]
        };
        let acquire = |actions: u32| {
            let head = pm4::header(op::ACQUIRE_MEM, 6);
            vec![head, actions, !0, !0, 0, 0, 10]
        };
        for (packet, expected) in [
            (acquire(0), &[][..]),
            (acquire(1 << 27), &[Cache::Scalar]),
            (acquire(1 << 28), &[Cache::Scalar]),
            (acquire(1 << 29), &[Cache::Code]),
            (acquire(1 << 30), &[]),
            (acquire(1 << 22), &[Cache::Vector]),
            (acquire(1 << 15), &[Cache::Vector]),
            (acquire(1 << 27 | 1 << 29 | 1 << 22 | 1 << 23), &Cache::ALL),
            (release(0), &[]),
            (release(1 << 12), &[Cache::Vector]),
            (release(1 << 16), &[Cache::Vector]),
            (release(1 << 17 | 1 << 15), &[]),
        ] {
            card.mock().acts();
            card.kiq(&packet);
            card.settle();
            let expected: Vec<_> = expected
                .iter()
                .map(|cache| Act::InvalidateCus(vec![*cache]))
                .collect();
            let acts = card.mock().acts();
            assert_eq!(
                on_cus(&acts),
                expected.iter().collect::<Vec<_>>(),
                "{packet:x?}"
            );
        }
        card.assert_clean();
    });
}

/// Returns a CU.
fn cu(n: u32) -> CuNumber {
    let slots = WaveSlots {
        cu: n,
        ..WaveSlots::default()
    };
    CuNumber::of(&slots, Isa::Gfx942)
}

#[test]
fn waves_access_memory_through_the_caches_of_their_cu() {
    with_card(|card| {
        let user = start(card);
        let kernel = card.kernel(0, &GATE);
        card.mock().add_l2();
        card.mock().put32(GATE_OPEN, 1);
        let signal = card.signal(0, 0);
        card.mock().acts();
        card.submit(user, &dispatch(kernel, KERNARG, 2, signal, false));
        card.until("signal", |c| c.signal_value(signal) == 0);
        let acts = card.mock().acts();
        let count = |act: &Act| acts.iter().filter(|a| *a == act).count();
        assert_eq!(count(&Act::Load(Scope::Wave, Some(Via::Scalar))), 2);
        // By each lane of a workgroup.
        for n in 0..2 {
            assert_eq!(count(&Act::Store(Scope::Wave, Some(cu(n)))), 64);
        }
        card.assert_clean();
    });
}

#[test]
fn accesses_of_waves_name_a_cache() {
    for is_gfx12 in [false, true] {
        let mock = match is_gfx12 {
            false => Mock::default(),
            true => Mock::gfx12(),
        };
        mock.add_l2();
        let waves = ShaderMemory::on_cu(&mock, 8, Some(cu(3)));
        let firmware = ShaderMemory::new(&mock, 8);
        let mut word = [0; 4];
        waves.load(0, &mut word, Scope::Agent).unwrap();
        waves.load_scalar(0, &mut word, Scope::System).unwrap();
        firmware.read(0, &mut word).unwrap();
        waves.store(0, &word, Scope::Agent).unwrap();
        waves.atomic(0, 4, &mut |old| old).unwrap();
        waves.store_scalar(0, &word, Scope::Wave).unwrap();
        waves.store_scalar(0, &word, Scope::Workgroup).unwrap();
        waves.write_back_scalar();
        waves.invalidate_scalar();
        waves.invalidate_code();
        let is_write = |act: &Act| matches!(act, Act::Write(..) | Act::Atomic(_));
        let mut acts = mock.acts();
        acts.retain(|act| !is_write(act));
        let vector = Via::Vector(cu(3));
        assert_eq!(
            acts,
            [
                Act::Load(Scope::Agent, Some(vector)),
                Act::Load(Scope::System, Some(Via::Scalar)),
                Act::Load(Scope::Wave, None),
                Act::Store(Scope::Agent, Some(cu(3))),
                Act::AfterAtomic(cu(3)),
                Act::ScalarStore,
                Act::WriteBackScalar,
                Act::Store(Scope::Wave, Some(cu(3))),
                Act::WriteBackScalar,
                Act::InvalidateCus(vec![Cache::Scalar]),
                Act::InvalidateCus(vec![Cache::Code]),
            ]
        );
        for scope in [Scope::Wave, Scope::Workgroup, Scope::System] {
            waves.invalidate(scope);
            let wider = scope > Scope::Wave;
            let mut expected = vec![Act::InvalidateL2(scope)];
            expected.extend((wider || !is_gfx12).then_some(Act::InvalidateCu(cu(3))));
            let scalar = Act::InvalidateCus(vec![Cache::Scalar]);
            expected.extend((wider && is_gfx12).then_some(scalar));
            assert_eq!(mock.acts(), expected);
        }
    }
}

#[test]
fn caches_of_cus_are_invalidated_when_a_queue_is_mapped() {
    with_card(|card| {
        card.mock().add_l2();
        start(card);
        let all = Act::InvalidateCus(Cache::ALL.to_vec());
        assert!(card.mock().acts().contains(&all));
    });
}

#[test]
fn unmapped_queues_are_written_back() {
    with_card(|card| {
        let user = start(card);
        card.mock().add_l2();
        card.mock().acts();
        card.unmap_all();
        card.settle();
        assert!(card.queue_of(user).is_none());
        let acts = card.mock().acts();
        assert_eq!(on_l2(&acts), [&Act::WriteBack(Scope::System)]);
    });
}
