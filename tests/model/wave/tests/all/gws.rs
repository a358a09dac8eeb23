// SPDX-License-Identifier: GPL-2.0 OR MIT

//! GWS: barriers across a dispatch, semaphores.

use crate::common::place::{CODE, DATA};
use crate::common::{llvm, Ram, Recorder};
use gpu_wave::{
    run_workgroup, Dispatch, Gws, GwsOp, GwsReply, GwsResources, Host, Message, Stop, Workgroup,
};

/// Host with GWS resources from 4 on that interrupts after each slice.
#[derive(Default)]
struct Impatient(GwsResources);

const BASE: usize = 4;

impl Host for Impatient {
    fn message(&self, _: &Message) -> bool {
        false
    }

    fn realtime(&self) -> u64 {
        0
    }

    fn shader_clock(&self) -> u64 {
        0
    }

    fn gws(&self, request: &Gws) -> Option<GwsReply> {
        self.0
            .execute(BASE + usize::from(request.resource), request)
    }

    fn gws_over(&self, ticket: u64) -> bool {
        self.0.over(ticket)
    }

    fn poll(&self) -> bool {
        true
    }
}

const GROUPS: u32 = 3;

/// `GROUPS` workgroups of one wave; s[0:1]: writable memory, s2: workgroup id.
fn dispatch() -> Dispatch {
    Dispatch {
        grid: [64 * GROUPS, 1, 1],
        workgroup: [64, 1, 1],
        entry: CODE,
        rsrc1: 2 | 2 << 6,
        rsrc2: 2 << 1 | 1 << 7,
        rsrc3: 5,
        user_sgprs: vec![DATA as u32, (DATA >> 32) as u32],
        ..Dispatch::default()
    }
}

fn ram(asm: &str) -> Ram {
    let ram = Ram::new(CODE, (DATA - CODE) as usize + 0x1000);
    ram.put_u32(CODE, &llvm::assemble(asm));
    ram
}

const INIT: &str = "v_mov_b32 v4, 2\n s_mov_b32 m0, 0x10000\n ds_gws_init v4 gds\n s_endpgm\n";

/// Each wave writes a dword and, after the barrier, the sum of all.
const MEET: &str = "
    v_mov_b32 v4, 2
    s_lshl_b32 s3, s2, 2
    v_mov_b32 v2, s3
    v_mov_b32 v3, 1
    global_store_dword v2, v3, s[0:1]
    s_mov_b32 m0, 0
    ds_gws_barrier v4 offset:1 gds
    s_waitcnt lgkmcnt(0)
    s_load_dwordx4 s[4:7], s[0:1], 0
    s_waitcnt lgkmcnt(0)
    s_add_u32 s4, s4, s5
    s_add_u32 s4, s4, s6
    v_mov_b32 v3, s4
    global_store_dword v2, v3, s[0:1] offset:16
    s_endpgm
";

#[test]
fn barrier_across_workgroups() {
    let host = Impatient::default();
    let d = dispatch();
    run_workgroup(&ram(INIT), &host, &d, [0, 0, 0]).unwrap();
    // Twice: the last wave resets the counter.
    for _ in 0..2 {
        let ram = ram(MEET);
        let d = dispatch();
        let mut groups: Vec<_> = (0..GROUPS)
            .map(|x| Workgroup::new(&d, [x, 0, 0]).unwrap())
            .collect();
        let mut rounds = 0;
        while !groups.is_empty() {
            groups.retain_mut(|group| match group.run(&ram, &host) {
                Ok(()) => false,
                Err(Stop::Interrupted) => true,
                Err(other) => panic!("{other}"),
            });
            rounds += 1;
            assert!(rounds < 10, "barrier never completes");
        }
        assert_eq!(ram.get_u32(DATA + 16, 3), [3; 3]);
    }
}

#[test]
fn semaphores_count() {
    let all = GwsResources::default();
    let execute = |op, value| {
        let request = Gws {
            op,
            resource: 0,
            value,
        };
        all.execute(7, &request).unwrap()
    };
    assert_eq!(execute(GwsOp::SemaV, 0), GwsReply::Go);
    assert_eq!(execute(GwsOp::SemaP, 0), GwsReply::Go);
    let GwsReply::Wait(first) = execute(GwsOp::SemaP, 0) else {
        panic!("no workgroup left");
    };
    let GwsReply::Wait(second) = execute(GwsOp::SemaP, 0) else {
        panic!("no workgroup left");
    };
    assert!(!all.over(first));
    execute(GwsOp::SemaBr, 1);
    assert!(all.over(first));
    assert!(!all.over(second));
    execute(GwsOp::SemaReleaseAll, 0);
    assert!(all.over(second));
}

#[test]
fn stops_without_resources() {
    let result = run_workgroup(&ram(INIT), &Recorder::default(), &dispatch(), [0, 0, 0]);
    assert!(matches!(result, Err(Stop::Violation { .. })), "{result:?}");
    let request = Gws {
        op: GwsOp::Init,
        resource: 0,
        value: 0,
    };
    assert_eq!(GwsResources::default().execute(64, &request), None);
}
