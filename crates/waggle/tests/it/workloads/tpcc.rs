//! tpcc with the small tables: what is loaded, what the transactions leave, what `check` finds.

use waggle_load::Script;
use waggle_server::Flavour;

use super::bed::Bed;

const WAREHOUSES: i64 = 2;
const DISTRICTS: i64 = 10 * WAREHOUSES;
const CUSTOMERS: i64 = 30 * DISTRICTS;

/// The small tables of two warehouses.
fn open(flavour: Flavour, options: &[(&str, &str)]) -> Option<Bed> {
    let warehouses = WAREHOUSES.to_string();
    let small = [("small", "on"), ("warehouses", warehouses.as_str())];
    Bed::open(flavour, "tpcc", 4, &[&small[..], options].concat())
}

/// All twelve conditions hold in both warehouses.
fn is_consistent(bed: &Bed) {
    let lines = bed.done("check");
    assert_eq!(lines.len() as i64, 12 * WAREHOUSES, "{lines:#?}");
    assert!(
        lines.iter().all(|line| line.ends_with(": ok")),
        "{lines:#?}"
    );
}

fn is_refused(bed: &Bed, why: &str) {
    let refusal = bed.refusal("run");
    assert!(refusal.contains(why), "{refusal}");
}

fn loads_the_cardinalities(bed: &mut Bed) {
    let wanted = [
        ("item", 1000),
        ("warehouse", WAREHOUSES),
        ("stock", 1000 * WAREHOUSES),
        ("district", DISTRICTS),
        ("customer", CUSTOMERS),
        ("history", CUSTOMERS),
        ("orders", CUSTOMERS),
        ("new_orders", 9 * DISTRICTS),
        ("item WHERE i_data LIKE '%ORIGINAL%'", 100),
        ("stock WHERE s_data LIKE '%ORIGINAL%'", 100 * WAREHOUSES),
        ("customer WHERE c_credit = 'BC'", 3 * DISTRICTS),
        ("orders WHERE o_carrier_id IS NULL", 9 * DISTRICTS),
        ("order_line WHERE (ol_amount = 0) <> (ol_o_id < 22)", 0),
        ("order_line WHERE CHAR_LENGTH(ol_dist_info) <> 24", 0),
        (
            "customer WHERE c_last = 'BARABLEEING' AND c_id = 30",
            DISTRICTS,
        ),
    ];
    for (rows, count) in wanted {
        assert_eq!(bed.count(rows), count, "{rows}");
    }
    // Every customer of a district has one order, in no order of theirs.
    let customers = "SELECT COUNT(DISTINCT o_w_id, o_d_id, o_c_id) FROM orders";
    assert_eq!(bed.number(customers), CUSTOMERS);
    assert!(bed.count("orders WHERE o_id <> o_c_id") > CUSTOMERS / 2);
}

/// What the workload counted is what the tables show.
fn left_what_it_counted(bed: &mut Bed, counted: &dyn Fn(&str) -> i64, lines_loaded: i64) {
    let committed = counted("new_orders") - counted("rolled_back");
    let delivered = 10 * counted("deliveries") - counted("districts_without_new_order");
    let sums = [
        ("COUNT(*) FROM orders", CUSTOMERS + committed),
        ("COUNT(*) FROM history", CUSTOMERS + counted("payments")),
        (
            "SUM(c_payment_cnt) FROM customer",
            CUSTOMERS + counted("payments"),
        ),
        ("SUM(c_delivery_cnt) FROM customer", delivered),
        (
            "COUNT(*) FROM new_orders",
            9 * DISTRICTS + committed - delivered,
        ),
        (
            "COUNT(*) FROM history WHERE h_w_id <> h_c_w_id",
            counted("remote_payments"),
        ),
    ];
    for (what, wanted) in sums {
        assert_eq!(bed.number(&format!("SELECT {what}")), wanted, "{what}");
    }
    let new = "FROM order_line WHERE ol_o_id > 30";
    let pairs = [
        ("SUM(s_order_cnt) FROM stock", format!("COUNT(*) {new}")),
        ("SUM(s_ytd) FROM stock", format!("SUM(ol_quantity) {new}")),
        (
            "SUM(s_remote_cnt) FROM stock",
            format!("COUNT(*) {new} AND ol_supply_w_id <> ol_w_id"),
        ),
        (
            "COUNT(*) FROM orders WHERE o_all_local = 0",
            format!(
                "COUNT(DISTINCT ol_w_id, ol_d_id, ol_o_id) {new} AND ol_supply_w_id <> ol_w_id"
            ),
        ),
    ];
    for (left, right) in pairs {
        let values = (
            bed.number(&format!("SELECT {left}")),
            bed.number(&format!("SELECT {right}")),
        );
        assert!(
            values.0 > 0 && values.0 == values.1,
            "{left}, {right}: {values:?}"
        );
    }
    let never = [
        "stock WHERE s_quantity NOT BETWEEN 10 AND 100",
        "item JOIN order_line ON ol_i_id = i_id WHERE ol_o_id > 30 \
         AND ol_amount <> ol_quantity * i_price",
        "customer WHERE c_credit = 'BC' AND c_payment_cnt > 1 \
         AND c_data NOT LIKE CONCAT(c_id, ' ', c_d_id, ' ', c_w_id, ' %')",
        "customer WHERE c_credit = 'GC' AND c_data LIKE '% %'",
    ];
    for rows in never {
        assert_eq!(bed.count(rows), 0, "{rows}");
    }
    let lines = bed.count("order_line") - lines_loaded;
    assert!(lines > 0 && lines < counted("order_lines"), "{lines}");
}

fn fills_runs_and_stays_consistent(flavour: Flavour, foreign_keys: &str) {
    let Some(mut bed) = open(flavour, &[("fk", foreign_keys)]) else {
        return;
    };
    bed.done("prepare");
    loads_the_cardinalities(&mut bed);
    is_consistent(&bed);
    let again = bed.command("prepare").1.unwrap_err().to_string();
    assert!(again.contains("already exist"), "{again}");
    is_consistent(&bed);

    let lines_loaded = bed.count("order_line");
    let (snapshot, checks) = bed.run(4000);
    let counted = |name: &str| snapshot.user_counters[name] as i64;
    let operations = [
        ("new_order", "new_orders", 43),
        ("payment", "payments", 43),
        ("order_status", "order_statuses", 4),
        ("delivery", "deliveries", 4),
        ("stock_level", "stock_levels", 4),
    ];
    for (operation, counter, least_percent) in operations {
        let count = snapshot.operations[operation].response.count() as i64;
        assert_eq!(count, counted(counter), "{operation}");
        assert!(count >= 40 * least_percent, "{operation}: {count}");
    }
    // 1% of 1,700 and 15% of as many: neither is 0 by chance.
    assert!(counted("rolled_back") > 0 && counted("remote_payments") > 0);
    left_what_it_counted(&mut bed, &counted, lines_loaded);
    is_consistent(&bed);

    let nopm = checks.iter().find(|check| check.name == "NOPM, not tpmC");
    assert_eq!(
        nopm.and_then(|check| check.value),
        Some(counted("new_orders") as f64)
    );
    let mix = checks
        .iter()
        .filter(|check| check.name.starts_with("mix: "));
    assert_eq!(mix.filter(|check| check.ok == Some(true)).count(), 4);

    bed.done("cleanup");
    bed.has_no_tables();
}

#[test]
fn stays_consistent_on_mariadb() {
    fills_runs_and_stays_consistent(Flavour::MariaDb, "on");
}

#[test]
fn stays_consistent_on_mysql() {
    fills_runs_and_stays_consistent(Flavour::MySql, "off");
}

/// By condition: what violates it in warehouse 1, and what takes that back.
const DAMAGES: [(&str, &str, &str); 12] = [
    (
        "3.3.2.1 ",
        "UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 1",
        "UPDATE warehouse SET w_ytd = w_ytd - 0.01 WHERE w_id = 1",
    ),
    (
        "3.3.2.2 ",
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3",
        "UPDATE district SET d_next_o_id = d_next_o_id - 1 WHERE d_w_id = 1 AND d_id = 3",
    ),
    (
        "3.3.2.3 ",
        "DELETE FROM new_orders WHERE no_w_id = 1 AND no_d_id = 4 AND no_o_id = 25",
        "INSERT INTO new_orders VALUES (25, 4, 1)",
    ),
    (
        "3.3.2.4 ",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 5 AND o_id = 6",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt - 1 WHERE o_w_id = 1 AND o_d_id = 5 AND o_id = 6",
    ),
    (
        "3.3.2.5 ",
        "UPDATE orders SET o_carrier_id = 1 WHERE o_w_id = 1 AND o_d_id = 6 AND o_id = 30",
        "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 6 AND o_id = 30",
    ),
    (
        // The sum stays.
        "3.3.2.6 ",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + IF(o_id = 1, 1, -1)
         WHERE o_w_id = 1 AND o_d_id = 7 AND o_id IN (1, 2)",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt - IF(o_id = 1, 1, -1)
         WHERE o_w_id = 1 AND o_d_id = 7 AND o_id IN (1, 2)",
    ),
    (
        "3.3.2.7 ",
        "UPDATE order_line SET ol_delivery_d = NULL
         WHERE ol_w_id = 1 AND ol_d_id = 8 AND ol_o_id = 1 AND ol_number = 1",
        "UPDATE order_line SET ol_delivery_d = NOW()
         WHERE ol_w_id = 1 AND ol_d_id = 8 AND ol_o_id = 1 AND ol_number = 1",
    ),
    (
        "3.3.2.8 ",
        "UPDATE history SET h_amount = h_amount + 0.01
         WHERE h_w_id = 1 AND h_d_id = 9 AND h_c_id = 1",
        "UPDATE history SET h_amount = h_amount - 0.01
         WHERE h_w_id = 1 AND h_d_id = 9 AND h_c_id = 1",
    ),
    (
        // The sum of the warehouse stays.
        "3.3.2.9 ",
        "UPDATE history SET h_d_id = 2 WHERE h_w_id = 1 AND h_c_d_id = 1 AND h_c_id = 1",
        "UPDATE history SET h_d_id = 1 WHERE h_w_id = 1 AND h_c_d_id = 1 AND h_c_id = 1",
    ),
    (
        "3.3.2.10 ",
        "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1
         WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 3",
        "UPDATE customer SET c_balance = c_balance - 1, c_ytd_payment = c_ytd_payment + 1
         WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 3",
    ),
    (
        "3.3.2.11 ",
        "UPDATE customer SET c_delivery_cnt = 1 WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 4",
        "UPDATE customer SET c_delivery_cnt = 0 WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 4",
    ),
    (
        "3.3.2.12 ",
        "UPDATE customer SET c_ytd_payment = 11 WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 5",
        "UPDATE customer SET c_ytd_payment = 10 WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 5",
    ),
];

fn finds_damage(flavour: Flavour) {
    let Some(mut bed) = open(flavour, &[]) else {
        return;
    };
    bed.done("prepare");
    for (condition, damage, repair) in DAMAGES {
        bed.rows(damage);
        let (lines, ended) = bed.command("check");
        assert!(ended.is_err(), "{condition} is violated: {lines:#?}");
        let line = lines
            .iter()
            .find(|line| line.starts_with(condition) && line.contains("FAILED, 1, warehouse 1: "));
        // Two orders are wrong where a sum has to stay.
        let two = lines
            .iter()
            .find(|line| line.starts_with(condition) && line.contains("FAILED, 2, warehouse 1: "));
        assert!(line.or(two).is_some(), "{condition}: {lines:#?}");
        assert!(
            lines
                .iter()
                .all(|line| line.contains("(warehouses 1)") || line.ends_with(": ok")),
            "{condition}: {lines:#?}"
        );
        bed.rows(repair);
    }
    is_consistent(&bed);
}

#[test]
fn check_finds_damage_on_mariadb() {
    finds_damage(Flavour::MariaDb);
}

#[test]
fn check_finds_damage_on_mysql() {
    finds_damage(Flavour::MySql);
}

/// The waits are asked for and not waited, so that the test takes no time.
const IMPATIENT: &str = r#"
    local keyed
    function waggle.sleep(seconds)
      keyed = keyed or waggle.counter("seconds_asked")
      waggle.add(keyed, seconds)
      return true
    end
    require("tpcc")
"#;

#[test]
fn terminals_wait_as_long_as_the_specification_says() {
    let Some(mut bed) = open(Flavour::MariaDb, &[("mode", "spec")]) else {
        return;
    };
    bed.spec.threads = 4;
    bed.done("prepare");
    is_refused(&bed, "takes 20 threads, a terminal each, not 4");

    bed.spec.threads = 20;
    let impatient = Script::from_text("impatient.lua", IMPATIENT);
    let tpcc = std::mem::replace(&mut bed.spec.script, impatient);
    let (snapshot, checks) = bed.run(4000);
    bed.spec.script = tpcc;
    // 10 x (18 + 12) + 10 x (3 + 12) + (2 + 10) + 2 x (2 + 5) seconds for a deck of 23 cards; the
    // think times of 4,000 transactions vary by 0.18 s (one standard error).
    let mean = snapshot.user_counters["seconds_asked"] / 4000.0;
    assert!((mean - 476.0 / 23.0).abs() < 0.9, "{mean}");
    let efficiency = checks
        .iter()
        .find(|check| check.name == "efficiency")
        .unwrap();
    assert_eq!(efficiency.ok, Some(false), "nobody waited: {efficiency:?}");
    is_consistent(&bed);
}

#[test]
fn what_does_not_fit_the_tables_is_refused() {
    let Some(mut bed) = open(Flavour::MariaDb, &[]) else {
        return;
    };
    is_refused(&bed, "waggle bench tpcc prepare");
    bed.done("prepare");
    for (name, value, wanted) in [
        ("warehouses", "3", "2 warehouses are loaded, not 3"),
        ("mode", "fast", "mode is stress or spec, not fast"),
        ("isolation", "none", "not none"),
    ] {
        let kept = bed.spec.options.insert(name.to_owned(), value.to_owned());
        is_refused(&bed, wanted);
        match kept {
            Some(kept) => bed.spec.options.insert(name.to_owned(), kept),
            None => bed.spec.options.remove(name),
        };
    }
    // A load that did not end: one warehouse has no row.
    bed.rows("DELETE FROM warehouse WHERE w_id = 1");
    is_refused(&bed, "did not end");
    bed.rows("DROP TABLE warehouse");
    bed.rows("CREATE TABLE warehouse (w_id INT)");
    is_refused(&bed, "did not make");
    let cleanup = bed.command("cleanup").1.unwrap_err().to_string();
    assert!(cleanup.contains("did not make"), "{cleanup}");
}
