//! Where a MySQL's threads sleep for InnoDB's mutexes and rw-locks, and what is in those.
//!
//! Neighbours: `code` reads functions, the parent says what a site and a layout are. Invariant: the
//! sites count only together with what the wait array's types mean; each layout counts for itself,
//! and one that is not found is named.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register as Machine};

use super::code::{
    EVENT_CREATE, EVENT_SET, EVENT_WAIT, FREE, MUTEX_EXIT, MUTEX_INIT, MUTEX_WAIT, RESERVE,
    RW_CREATE, RW_MOVE, RW_S, RW_SX, RW_X, WAIT, calls, function, instructions, place,
};
use super::{
    LatchHook, LatchLayout, LatchSite, MutexLayout, NameTable, RwLockLayout, RwMode, WaitType,
};
use crate::elf::{Binary, Function};
use crate::lock::call_site;
use crate::site::{Register, Site};
use crate::trace::trace;

impl LatchLayout {
    pub(super) fn find_innodb(&mut self, binary: &Binary) {
        let sites = innodb_sites(binary).and_then(|sites| {
            let types = wait_types(binary).ok_or("the wait array's types were not recognised")?;
            Ok((sites, types))
        });
        match sites {
            Ok((sites, types)) => {
                self.sites.extend(sites);
                self.types = types;
            }
            Err(why) => return self.miss("InnoDB's mutexes and rw-locks", &why),
        }
        self.mutex = mutex(binary);
        self.rw_lock = rw_lock(binary);
        self.names = names(binary);
        if self.mutex.is_none_or(|m| m.owner.is_none()) {
            self.miss(
                "owner's word of a mutex",
                "its exit is not of the form that is known",
            );
        }
        if self.names.is_none() || self.mutex.is_none_or(|m| m.latch_id.is_none()) {
            self.miss(
                "names of mutexes",
                "their making is not of the form that is known",
            );
        }
        if self.rw_lock.is_none() {
            self.miss(
                "owner and origin of a rw-lock",
                "their making is not of the known form",
            );
        }
    }
}

fn innodb_sites(binary: &Binary) -> Result<Vec<LatchSite>, String> {
    let wait = function(binary, WAIT)?;
    let inside = |hook, target: &str| {
        Ok::<_, String>(LatchSite {
            hook,
            site: call_site(&wait, &function(binary, target)?)?,
            at_entry: false,
        })
    };
    Ok(vec![
        entry(
            LatchHook::Wanted,
            &function(binary, RESERVE)?,
            &[1, 2, 3, 4],
        )?,
        inside(LatchHook::Sleeps, EVENT_WAIT)?,
        inside(LatchHook::Wakes, FREE)?,
        entry(LatchHook::Sets, &function(binary, EVENT_SET)?, &[0])?,
    ])
}

/// The cheapest site of `function` with these arguments in the registers they were passed in.
fn entry(hook: LatchHook, function: &Function, arguments: &[u8]) -> Result<LatchSite, String> {
    /// `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`.
    const PASSED: [Register; 6] = [
        Register(7),
        Register(6),
        Register(2),
        Register(1),
        Register(8),
        Register(9),
    ];
    let (site, registers) =
        Site::find_holding(function, arguments).map_err(|error| error.to_string())?;
    let passed = arguments.iter().map(|a| PASSED[usize::from(*a)]);
    if !passed.eq(registers) {
        return Err(format!("{} moves its arguments at once", function.name));
    }
    let at_entry = site.is_before_stack_moves(function);
    Ok(LatchSite {
        hook,
        site,
        at_entry,
    })
}

/// `cmp rax, TYPE; je there`, and `there: mov rdi, [rdx + EVENT]`: types of mutexes are those whose
/// event stands where a mutex has it; those of rw-locks are what their functions hand over.
fn wait_types(binary: &Binary) -> Option<Vec<WaitType>> {
    let wait = instructions(&function(binary, WAIT).ok()?);
    let event = mutex(binary)?.event;
    let mut types = Vec::new();
    let mut draining = None;
    for pair in wait.windows(2) {
        let [compare, jump] = pair else { continue };
        if compare.mnemonic() != Mnemonic::Cmp
            || compare.op0_kind() != OpKind::Register
            || compare.op0_register() != Machine::RAX
            || !matches!(
                compare.op1_kind(),
                OpKind::Immediate8to64 | OpKind::Immediate32to64
            )
            || jump.mnemonic() != Mnemonic::Je
        {
            continue;
        }
        let number = u8::try_from(compare.immediate(1)).ok()?;
        let there = wait.iter().find(|i| i.ip() == jump.near_branch_target())?;
        let loads = there.mnemonic() == Mnemonic::Mov && there.op0_register() == Machine::RDI;
        match place(there).filter(|_| loads)? {
            (_, offset) if offset == event => types.push(WaitType { number, mode: None }),
            _ => draining = Some(number),
        }
    }
    if types.is_empty() {
        return None;
    }
    types.extend(draining.map(|number| WaitType {
        number,
        mode: Some(RwMode::ExclusiveDraining),
    }));
    let reserve = function(binary, RESERVE).ok()?.address;
    let modes = [
        (RW_S, RwMode::Shared),
        (RW_SX, RwMode::SharedExclusive),
        (RW_X, RwMode::Exclusive),
    ];
    for (name, mode) in modes {
        let number = type_handed_over(&function(binary, name).ok()?, reserve)?;
        if types.iter().any(|t| t.number == number) {
            return None;
        }
        types.push(WaitType {
            number,
            mode: Some(mode),
        });
    }
    Some(types)
}

/// The last `mov edx, TYPE` before the first call of `reserve`.
fn type_handed_over(function: &Function, reserve: u64) -> Option<u8> {
    let instructions = instructions(function);
    let call = instructions.iter().position(|i| calls(i, reserve))?;
    let before = instructions[..call].iter().rev().take(8);
    let given = before
        .clone()
        .find(|i| i.code() == Code::Mov_r32_imm32 && i.op0_register() == Machine::EDX)?;
    u8::try_from(given.immediate(1)).ok()
}

/// The exit takes the owner's word by exchange, and hands the event on: `xchg [rdi], reg` of eight
/// bytes (of one, the word is no owner), `mov rdi, [rdi + EVENT]` before `os_event_set`.
fn mutex(binary: &Binary) -> Option<MutexLayout> {
    let exit = instructions(&function(binary, MUTEX_EXIT).ok()?);
    let set = function(binary, EVENT_SET).ok()?.address;
    let call = exit.iter().position(|i| calls(i, set))?;
    let load = exit.get(call.checked_sub(1)?)?;
    let loads = load.code() == Code::Mov_r64_rm64 && load.op0_register() == Machine::RDI;
    let (base, event) = place(load).filter(|_| loads)?;
    let first = exit[..call]
        .iter()
        .find(|i| i.mnemonic() == Mnemonic::Xchg)?;
    let owner = place(first).filter(|(register, _)| *register == base)?.1;
    let wait = trace(&function(binary, MUTEX_WAIT).ok()?);
    let latch_id = wait
        .direct(0, 4)
        .find(|a| a.reads)
        .map(|a| a.address.offset);
    Some(MutexLayout {
        owner: (first.memory_size().size() == 8).then_some(owner),
        event,
        latch_id: latch_id.and_then(|offset| u32::try_from(offset).ok()),
    })
}

/// `pthread_self` is stored as the writer when ownership moves; the events are what
/// `os_event_create` returns, the shared one first; file and line are stored as they were passed.
fn rw_lock(binary: &Binary) -> Option<RwLockLayout> {
    let moves = instructions(&function(binary, RW_MOVE).ok()?);
    let writer = stored_after_call(&moves, |i| i.code() == Code::Call_rel32_64)?;
    let create = function(binary, RW_CREATE).ok()?;
    let make = function(binary, EVENT_CREATE).ok()?.address;
    let event = stored_after_call(&instructions(&create), |i| calls(i, make))?;
    let trace = trace(&create);
    let stored = |argument: u8| {
        let mut stores = trace.accesses.iter().filter(|a| {
            let plain = a
                .stored
                .as_ref()
                .is_some_and(|s| s.argument == argument && s.derefs.is_empty() && s.offset == 0);
            plain && a.writes && a.address.argument == 0 && a.address.derefs.is_empty()
        });
        stores
            .next()
            .and_then(|a| u32::try_from(a.address.offset).ok())
    };
    let (file, line) = (stored(1)?, stored(2)?);
    (line == file + 8).then_some(RwLockLayout {
        writer,
        event,
        made_at: file,
    })
}

/// Where the result of the first call that `is` says is stored: `mov [reg + OFFSET], rax`.
fn stored_after_call(
    instructions: &[Instruction],
    is: impl Fn(&Instruction) -> bool,
) -> Option<u32> {
    let call = instructions.iter().position(is)?;
    let store = instructions[call + 1..]
        .iter()
        .take(4)
        .find(|i| i.code() == Code::Mov_rm64_r64 && i.op1_register() == Machine::RAX)?;
    Some(place(store)?.1)
}

/// `lea reg, [latch_meta]`, `mov rax, [reg + 8]`, `mov rax, [rax + id * 8]`. In a description the
/// name comes behind the id; that it is one is checked where it is read.
fn names(binary: &Binary) -> Option<NameTable> {
    let init = instructions(&function(binary, MUTEX_INIT).ok()?);
    let at = init.iter().position(|i| {
        i.code() == Code::Mov_r64_rm64
            && i.memory_index() != Machine::None
            && i.memory_index_scale() == 8
            && i.memory_displacement64() == 0
    })?;
    let array = init[at].memory_base();
    let load = init[..at]
        .iter()
        .rev()
        .find(|i| i.code() == Code::Mov_r64_rm64 && i.op0_register() == array)?;
    let (table, offset) = place(load)?;
    let global = init[..at].iter().rev().find(|i| {
        i.code() == Code::Lea_r64_m && i.op0_register() == table && i.is_ip_rel_memory_operand()
    })?;
    Some(NameTable {
        array: global.ip_rel_memory_address().wrapping_add(offset.into()),
        name: 8,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(code: Vec<u8>) -> Function {
        Function {
            name: "f".into(),
            // Near the top, so that sums of addresses are tried too.
            address: 0xffff_ffff_ffff_0000,
            file_offset: 0,
            code,
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(code in prop::collection::vec(any::<u8>(), 0..256)) {
            let function = of(code);
            let _ = type_handed_over(&function, function.address);
            let all = instructions(&function);
            let is_call = |i: &Instruction| i.code() == Code::Call_rel32_64;
            if let Some(offset) = stored_after_call(&all, is_call) {
                prop_assert!(offset < 4096);
            }
        }
    }

    #[test]
    fn a_type_is_what_stands_in_edx_at_the_call() {
        // mov edx, 5; mov rdi, rax; call +0
        let code = vec![0xba, 5, 0, 0, 0, 0x48, 0x89, 0xc7, 0xe8, 0, 0, 0, 0];
        let function = of(code);
        assert_eq!(type_handed_over(&function, function.address + 13), Some(5));
        assert_eq!(type_handed_over(&function, function.address), None);
    }
}
