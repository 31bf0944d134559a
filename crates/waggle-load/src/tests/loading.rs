//! Tables filled with described rows: streamed or inserted, counted, cancelled.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::driver::Outcome;
use crate::driver::scripted::{Scripted, ScriptedDriver};
use crate::{LoadError, Progress, Script, run_command};

use super::{lua, spec};

#[test]
fn streamed_rows_are_counted_split_and_cancelled_between_packets() {
    let mut spec = spec(Script::open("oltp_read_write").unwrap());
    spec.options = [("table_size".to_owned(), "250001".to_owned())].into();
    let cancel = spec.cancel.clone();
    let packets = Arc::new(AtomicU32::new(0));
    let cancel_at = Arc::new(AtomicU32::new(u32::MAX));
    let (seen, wanted) = (packets.clone(), cancel_at.clone());
    let server = Scripted::answering(move |_, asked| {
        if asked.sql.starts_with("ROWS") {
            let packet = seen.fetch_add(1, Ordering::SeqCst);
            cancel.store(packet >= wanted.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        Ok(Outcome::default())
    });
    server.streams.store(true, Ordering::SeqCst);
    let driver = Arc::new(ScriptedDriver(server.clone()));
    let rows = Arc::new(Mutex::new(Vec::new()));
    let reported = rows.clone();
    let progress = move |progress: Progress<'_>| {
        if let Progress::Rows { inserted } = progress {
            reported.lock().unwrap().push(inserted);
        }
    };
    run_command(&spec, "prepare", driver.clone(), progress).unwrap();
    assert_eq!(*rows.lock().unwrap(), [100_000, 200_000, 250_001]);
    let loads = |text: &String| text == "LOAD sbtest1 (id, k, c, pad)";
    assert_eq!(server.texts().into_iter().filter(loads).count(), 3);

    cancel_at.store(packets.load(Ordering::SeqCst) + 2, Ordering::SeqCst);
    server.asked.lock().unwrap().clear();
    let cancelled = run_command(&spec, "prepare", driver, |_| {}).unwrap_err();
    assert!(matches!(cancelled, LoadError::Cancelled), "{cancelled}");
    let mut texts = server.texts();
    assert_eq!(texts.pop().unwrap(), "ROWS 0", "the stream was ended");
    assert_eq!(
        texts.iter().filter(|text| text.starts_with("ROWS")).count(),
        3
    );
}

#[test]
fn described_rows_are_those_a_script_would_have_made() {
    let script = "
        local function by_hand()
          local c, r = sysbench.sql.driver():connect(), sysbench.rand
          c:bulk_insert_init('INSERT INTO t (id, k, c) VALUES')
          for id = 3, 5002 do
            c:bulk_insert_next(string.format(\"(%d, %d, '%s')\", id, r.default(1, 99),
              r.string('##-@@ x ########################################')))
          end
          c:bulk_insert_done()
        end
        local function described()
          local c = sysbench.sql.driver():connect()
          waggle.load(c, 't', 5000, {
            { 'id', 'sequence', 3 }, { 'k', 'integer', 1, 99 },
            { 'c', 'string', '##-@@ x ########################################' },
          })
        end
        local function wrong()
          waggle.load(sysbench.sql.driver():connect(), 't', 1, { { 'c', 'string', \"it's\" } })
        end
        sysbench.cmdline.commands = {
          by_hand = { by_hand }, described = { described }, wrong = { wrong },
        }";
    let (spec, server) = (spec(lua(script)), Scripted::silent());
    let driver = Arc::new(ScriptedDriver(server.clone()));
    let mut sent = ["by_hand", "described"].map(|command| {
        run_command(&spec, command, driver.clone(), |_| {}).unwrap();
        std::mem::take(&mut *server.asked.lock().unwrap())
    });
    assert!(
        !sent[0].is_empty()
            && sent[0][0]
                .sql
                .starts_with("INSERT INTO t (id, k, c) VALUES (3, ")
    );
    for asked in sent.iter_mut().flatten() {
        asked.session = 0;
    }
    assert_eq!(sent[0], sent[1]);
    let error = run_command(&spec, "wrong", driver, |_| {}).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("column c: its format has a quote"),
        "{error}"
    );
}
