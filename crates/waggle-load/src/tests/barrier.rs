//! `waggle.barrier()`: the threads of a parallel command wait for each other, and for nobody else.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{lua, run_to_end, spec};
use crate::driver::scripted::{Scripted, ScriptedDriver, server_error};
use crate::driver::{DriverError, Outcome};
use crate::{LoadError, LoadSpec, command};

/// A parallel command of three threads with this body.
fn commanded(body: &str, server: &Arc<Scripted>) -> Result<(), LoadError> {
    let script = format!(
        "sysbench.cmdline.commands = {{
           go = {{ function()
             local con = sysbench.sql.driver():connect()
             {body}
           end, sysbench.cmdline.PARALLEL_COMMAND }}
         }}"
    );
    let spec = LoadSpec {
        threads: 3,
        ..spec(lua(&script))
    };
    let driver = Arc::new(ScriptedDriver(server.clone()));
    command::run(&spec, "go", driver, Arc::new(|_| ()))
}

#[test]
fn nobody_passes_before_the_last_has_come() {
    let server = Scripted::silent();
    let body = "
      for round = 1, 50 do
        con:query('before ' .. round)
        waggle.barrier()
        con:query('after ' .. round)
        waggle.barrier()
      end";
    commanded(body, &server).unwrap();
    let texts = server.texts();
    assert_eq!(texts.len(), 300);
    for (round, texts) in texts.chunks(6).enumerate() {
        let (before, after) = texts.split_at(3);
        let round = round + 1;
        assert!(
            before.iter().all(|text| *text == format!("before {round}")),
            "{texts:?}"
        );
        assert!(
            after.iter().all(|text| *text == format!("after {round}")),
            "{texts:?}"
        );
    }
}

#[test]
fn a_thread_that_failed_ends_those_that_wait_for_it() {
    let refuses = |_: &Scripted, asked: &crate::driver::scripted::Asked| match asked.sql
        == "CREATE TABLE t"
    {
        true => Err::<Outcome, DriverError>(server_error(1050, "Table 't' already exists")),
        false => Ok(Outcome::default()),
    };
    let server = Scripted::answering(refuses);
    let body = "
      if sysbench.tid == 0 then con:query('CREATE TABLE t') end
      waggle.barrier()
      con:query('INSERT')";
    let error = commanded(body, &server).unwrap_err().to_string();
    assert!(error.contains("already exists"), "{error}");
    assert_eq!(server.texts(), ["CREATE TABLE t"]);
}

#[test]
fn a_thread_that_ended_is_not_waited_for() {
    let server = Scripted::silent();
    let body = "
      if sysbench.tid == 1 then return end
      waggle.barrier()
      con:query('passed')";
    commanded(body, &server).unwrap();
    assert_eq!(server.texts(), ["passed", "passed"]);
}

#[test]
fn a_cancelled_command_ends_at_the_barrier() {
    let script = "sysbench.cmdline.commands = {
        go = { function()
          if sysbench.tid == 0 then
            sysbench.sql.driver():connect():query('cancel')
          else
            waggle.barrier()
            error('passed')
          end
        end, sysbench.cmdline.PARALLEL_COMMAND }
      }";
    let spec = LoadSpec {
        threads: 2,
        ..spec(lua(script))
    };
    let cancel = spec.cancel.clone();
    let server = Scripted::answering(move |_, _| {
        cancel.store(true, Ordering::Relaxed);
        Ok(Outcome::default())
    });
    let driver = Arc::new(ScriptedDriver(server));
    let error = command::run(&spec, "go", driver, Arc::new(|_| ())).unwrap_err();
    assert!(matches!(error, LoadError::Cancelled), "{error}");
}

#[test]
fn a_run_has_no_barrier_and_a_command_of_one_thread_passes() {
    let script = lua("function event() waggle.barrier() return true end");
    let error = run_to_end(&spec(script), &Scripted::silent()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("waggle.barrier() is for commands"),
        "{error}"
    );

    let script = lua("function prepare() waggle.barrier() waggle.barrier() end");
    let spec = LoadSpec {
        threads: 8,
        ..spec(script)
    };
    let driver = Arc::new(ScriptedDriver(Scripted::silent()));
    command::run(&spec, "prepare", driver, Arc::new(|_| ())).unwrap();
}
