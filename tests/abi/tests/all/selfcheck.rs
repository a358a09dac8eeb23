// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks that the comparison detects changed, lost and duplicate facts.

use gpu_regs::gc_9_4_3 as gc;
use rkfd_abi::pm4::map_process as mp;
use rkfd_abi_oracle::{compare, fact, place, shift_mask, Mismatch, Program};

fn program() -> Program {
    let mut facts = vec![
        fact("seg", gc::regCP_HQD_ACTIVE.seg, "regCP_HQD_ACTIVE_BASE_IDX"),
        fact("off", gc::regCP_HQD_ACTIVE.off, "regCP_HQD_ACTIVE"),
    ];
    facts.extend(shift_mask(
        "CP_HQD_PQ_CONTROL__QUEUE_SIZE",
        gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE,
    ));
    Program::new()
        .include("gc/gc_9_4_3_offset.h")
        .include("gc/gc_9_4_3_sh_mask.h")
        .include("amdkfd/kfd_pm4_headers_ai.h")
        .include("amdkfd/kfd_pm4_headers_aldebaran.h")
        .facts(facts)
        .block(
            "quantum",
            place(mp::PROCESS_QUANTUM),
            "struct pm4_mes_map_process_aldebaran s; uint32_t *d = (uint32_t *)&s; \
             memset(&s, 0, sizeof s); s.bitfields2.process_quantum = ~0; v = 1ull << 32 | d[1]",
        )
}

#[test]
fn flipped_bits_are_detected() {
    let program = program();
    let theirs = program.run();
    let facts = program.all().to_vec();
    assert_eq!(compare(&facts, &theirs), []);
    let mut flips = 0;
    for i in 0..facts.len() {
        for bit in 0..64 {
            let mut mutant = facts.clone();
            mutant[i].ours ^= 1 << bit;
            let want = Mismatch::Value {
                name: facts[i].name.clone(),
                ours: mutant[i].ours,
                theirs: facts[i].ours,
            };
            assert_eq!(compare(&mutant, &theirs), [want]);
            flips += 1;
        }
    }
    assert_eq!(flips, 64 * 5);
}

#[test]
fn lost_and_duplicate_facts_are_detected() {
    let program = program();
    let theirs = program.run();
    let facts = program.all().to_vec();
    let lost = compare(&facts[1..], &theirs);
    assert_eq!(lost, [Mismatch::Extra(facts[0].name.clone())]);
    let mut doubled = facts.clone();
    doubled.push(facts[0].clone());
    assert_eq!(
        compare(&doubled, &theirs),
        [Mismatch::Twice(facts[0].name.clone())]
    );
    let mut unknown = facts.clone();
    unknown.push(fact("nothing", 0u32, "0"));
    assert_eq!(
        compare(&unknown, &theirs),
        [Mismatch::Missing("nothing".to_string())]
    );
}

#[test]
#[should_panic(expected = "1 of 6 facts differ")]
fn a_wrong_fact_fails_the_test() {
    program()
        .facts([fact(
            "wrong",
            gc::regCP_HQD_ACTIVE.off ^ 1,
            "regCP_HQD_ACTIVE",
        )])
        .check();
}
