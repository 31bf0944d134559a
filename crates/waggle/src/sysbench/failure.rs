//! What went wrong, in the lines that scripts around sysbench look for.
//!
//! Invariant: a statement's text is shown whole, as sysbench does, but for the password in it.

use waggle_load::{LoadError, WorkerError};

use super::log::{Level, Log};

/// Tells of an error in a function of the script (`event`, `thread_init`, ...).
pub(super) fn tell(log: &Log, function: &str, error: &LoadError) {
    for line in lines(function, error) {
        log.line(Level::Fatal, &line);
    }
}

/// The first line of an error that no function of the script is behind.
pub(super) fn words(error: &LoadError) -> String {
    lines("init", error).remove(0)
}

/// True when all there is to say is that a command returned false.
pub(super) fn is_plain_false(error: &WorkerError) -> bool {
    error.message == "the command of the workload returned false"
}

fn lines(function: &str, error: &LoadError) -> Vec<String> {
    let failed = |function: &str, what: &str| format!("`{function}' function failed: {what}");
    match error {
        LoadError::Worker(worker) | LoadError::Connect { source: worker, .. } => {
            let function = worker.function.as_deref().unwrap_or(function);
            let mut lines = Vec::new();
            lines.extend(statement(worker));
            lines.push(failed(function, &script_words(worker)));
            lines
        }
        LoadError::Script { message, .. } => vec![message.clone()],
        LoadError::UnknownWorkload { name, .. } => vec![format!(
            "Cannot find benchmark '{name}': no such built-in test, file or module"
        )],
        LoadError::NoEvent { script } => {
            vec![format!("cannot find the event() function in {script}")]
        }
        other => vec![chain(other)],
    }
}

/// The statement that failed, with the server's answer.
fn statement(error: &WorkerError) -> Option<String> {
    let (errno, statement) = (error.errno?, error.statement.as_deref()?);
    let statement = match waggle_digest::carries_secret(statement.as_bytes()) {
        true => "(not shown: it holds a password)",
        false => statement,
    };
    let words = error
        .answer
        .as_ref()
        .map_or(&error.message, |(_, words)| words);
    Some(format!(
        "mysql_drv_query() returned error {errno} ({words}) for query '{statement}'"
    ))
}

fn script_words(error: &WorkerError) -> String {
    let at = error
        .at
        .as_ref()
        .map_or(String::new(), |at| format!("{at}: "));
    match (error.errno, &error.answer) {
        _ if error.connecting => format!("{at}connection creation failed"),
        (Some(errno), Some((state, words))) => {
            format!("{at}SQL error, errno = {errno}, state = '{state}': {words}")
        }
        _ => format!("{at}{}", error.message),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> WorkerError {
        WorkerError {
            thread: 0,
            statement: None,
            at: None,
            errno: None,
            connecting: false,
            message: "err.lua:1: boom".to_owned(),
            answer: None,
            function: None,
        }
    }

    #[test]
    fn errors_read_as_those_of_sysbench() {
        let told = lines("thread_run", &LoadError::Worker(Box::new(worker())));
        assert_eq!(told, ["`thread_run' function failed: err.lua:1: boom"]);
        let failed = WorkerError {
            statement: Some("SELECT * FROM nope".to_owned()),
            at: Some("mine.lua:2".to_owned()),
            errno: Some(1146),
            answer: Some((
                "42S02".to_owned(),
                "Table 'sbtest.nope' doesn't exist".to_owned(),
            )),
            ..worker()
        };
        let told = lines("thread_run", &LoadError::Worker(Box::new(failed)));
        assert_eq!(
            told[0],
            "mysql_drv_query() returned error 1146 (Table 'sbtest.nope' doesn't exist) for query \
             'SELECT * FROM nope'"
        );
        assert_eq!(
            told[1],
            "`thread_run' function failed: mine.lua:2: SQL error, errno = 1146, state = '42S02': \
             Table 'sbtest.nope' doesn't exist"
        );
    }
}
