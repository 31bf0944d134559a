//! What a statement costs this client: `hot_path DSN [DSN ..]`, each a way to reach the same table.
//!
//! Prepared point selects and ranges of 100 rows go over one connection per DSN, in short slices
//! that take turns, so that whatever else the machine does falls on all alike. It prints the
//! client's CPU time per statement, and the median over the turns of each DSN's ratio to the
//! first one. Makes and drops the table `waggle_hot_path`. With `strace -c -f` before it, it
//! shows the system calls.

use std::error::Error;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use waggle_wire::{Connection, Dsn, Statement, Value};

const SLICE: Duration = Duration::from_millis(100);
const TURNS: usize = 40;
const ROWS: i64 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut dsns = Vec::new();
    for text in std::env::args().skip(1) {
        dsns.push(text.parse::<Dsn>()?);
    }
    let Some(first) = dsns.first() else {
        return Err("usage: hot_path DSN [DSN ..]".into());
    };
    let mut setup = Connection::connect(first)?;
    make_table(&mut setup)?;
    for (name, sql, params) in [
        ("point", "SELECT c FROM waggle_hot_path WHERE id = ?", 1),
        (
            "wide point",
            "SELECT id, k, c, pad FROM waggle_hot_path WHERE id = ?",
            1,
        ),
        (
            "range of 100",
            "SELECT c FROM waggle_hot_path WHERE id BETWEEN ? AND ? + 99",
            2,
        ),
    ] {
        let mut clients = Vec::new();
        for dsn in &dsns {
            clients.push(Client::new(dsn, sql, params)?);
        }
        compare(name, &mut clients)?;
    }
    setup.query(b"DROP TABLE waggle_hot_path")?;
    Ok(())
}

fn make_table(connection: &mut Connection) -> Result<(), waggle_wire::Error> {
    connection.query(
        b"DROP TABLE IF EXISTS waggle_hot_path; CREATE TABLE waggle_hot_path \
          (id INT PRIMARY KEY, k INT, c CHAR(120), pad CHAR(60))",
    )?;
    let rows: Vec<String> = (0..ROWS + 100)
        .map(|id| format!("({id}, {id}, REPEAT('c', 119), REPEAT('p', 59))"))
        .collect();
    let insert = format!("INSERT INTO waggle_hot_path VALUES {}", rows.join(","));
    connection.query(insert.as_bytes()).map(|_| ())
}

struct Client {
    connection: Connection,
    statement: Statement,
    params: usize,
    turn: i64,
    /// CPU time per statement of each turn, in microseconds.
    costs: Vec<f64>,
}

impl Client {
    fn new(dsn: &Dsn, sql: &str, params: usize) -> Result<Client, waggle_wire::Error> {
        let mut connection = Connection::connect(dsn)?;
        let statement = connection.prepare(sql.as_bytes())?;
        Ok(Client {
            connection,
            statement,
            params,
            turn: 0,
            costs: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<(), waggle_wire::Error> {
        let (end, cpu) = (Instant::now() + SLICE, thread_cpu_us());
        let mut statements = 0;
        while Instant::now() < end {
            for _ in 0..16 {
                self.turn = (self.turn + 1) % ROWS;
                let values = [Value::Int(self.turn); 2];
                self.connection
                    .execute(&mut self.statement, &values[..self.params])?;
            }
            statements += 16;
        }
        self.costs
            .push((thread_cpu_us() - cpu) / f64::from(statements));
        Ok(())
    }
}

fn compare(name: &str, clients: &mut [Client]) -> Result<(), waggle_wire::Error> {
    for turn in 0..TURNS {
        for i in 0..clients.len() {
            // Whoever is first in a turn changes, too.
            let i = (i + turn) % clients.len();
            clients[i].run()?;
        }
    }
    let first = clients[0].costs.clone();
    for (i, client) in clients.iter().enumerate() {
        let ratios = client.costs.iter().zip(&first).map(|(cost, of)| cost / of);
        println!(
            "{name:12} DSN {}: {:6.2} us of CPU time a statement, {:.3} of the first",
            i + 1,
            median(client.costs.iter().copied()),
            median(ratios),
        );
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn thread_cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
