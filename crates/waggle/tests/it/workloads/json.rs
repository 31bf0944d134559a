//! json: both ways to store hold the same, and the operations use the indexes they are about.

use waggle_server::Flavour;

use super::bed::Bed;

const ROWS: i64 = 1000;

fn bed(flavour: Flavour) -> Option<Bed> {
    let bed = Bed::open(flavour, "json", 4, &[("table_size", &ROWS.to_string())])?;
    bed.done("prepare");
    Some(bed)
}

fn both_sides_hold_the_same(bed: &mut Bed) {
    assert_eq!(bed.count("json_documents"), ROWS);
    assert_eq!(bed.count("json_plain"), ROWS);
    assert_eq!(bed.count("json_plain_tags"), 5 * ROWS);
    let same = "json_documents AS d JOIN json_plain AS p USING (id)
        WHERE d.city = p.city AND JSON_EXTRACT(doc, '$.score') = score
        AND JSON_UNQUOTE(JSON_EXTRACT(doc, '$.name')) = name
        AND JSON_UNQUOTE(JSON_EXTRACT(doc, '$.padding')) = p.padding";
    assert_eq!(bed.count(same), ROWS);
    let tags = "json_documents AS d JOIN json_plain_tags AS t USING (id)
        WHERE JSON_EXTRACT(doc, CONCAT('$.tags[', place - 1, ']')) = tag";
    assert_eq!(bed.count(tags), 5 * ROWS);
}

/// Scores are numbers still, and documents are documents.
fn is_well_formed(bed: &mut Bed) {
    let well = "json_documents WHERE JSON_TYPE(JSON_EXTRACT(doc, '$.score')) = 'INTEGER'
        AND JSON_LENGTH(doc, '$.tags') = 5 AND JSON_VALID(doc)
        AND JSON_EXTRACT(doc, '$.score') BETWEEN 100000 AND 999999";
    assert_eq!(bed.count(well), ROWS);
}

/// Searches read rows by index only: a scan for each would read a hundred times as many.
fn searches_use_indexes(bed: &mut Bed, operations: &str) {
    bed.set(&[("operations", operations)]);
    let before = bed.status("Handler_read_rnd_next");
    let (snapshot, checks) = bed.run(400);
    let scanned = bed.status("Handler_read_rnd_next") - before;
    assert!(scanned < 100 * ROWS, "{scanned} rows were scanned");
    for (name, operation) in &snapshot.operations {
        assert!(operation.response.count() > 40, "{name}");
        let name = format!("rows found by {name}");
        let found = checks.iter().find(|check| check.name == name);
        // 1,000 documents in 500 cities, and with five of 1,000 tags each.
        let least = if name.contains("lookup") { 1.0 } else { 3.0 };
        let found = found.and_then(|check| check.value).unwrap();
        assert!(
            found > least && found < 2.0 * least + 2.0,
            "{name}: {found}"
        );
    }
}

#[test]
fn all_operations_on_mysql() {
    let Some(mut bed) = bed(Flavour::MySql) else {
        return;
    };
    both_sides_hold_the_same(&mut bed);
    let plan = "EXPLAIN FORMAT=TREE SELECT id FROM json_documents
        WHERE CAST(5 AS UNSIGNED) MEMBER OF (doc->'$.tags')";
    let plan = bed.rows(plan);
    assert!(plan[0][0].contains("using tags"), "{plan:?}");
    searches_use_indexes(&mut bed, "lookup,member");

    bed.set(&[("operations", "all")]);
    let (snapshot, _) = bed.run(3000);
    assert_eq!(snapshot.operations.len(), 12);
    for (name, operation) in &snapshot.operations {
        let count = operation.response.count();
        assert!((150..350).contains(&count), "{name}: {count}");
    }
    is_well_formed(&mut bed);
    bed.done("cleanup");
    bed.has_no_tables();
}

#[test]
fn without_multi_valued_indexes_on_mariadb() {
    let Some(mut bed) = bed(Flavour::MariaDb) else {
        return;
    };
    both_sides_hold_the_same(&mut bed);
    searches_use_indexes(&mut bed, "lookup");
    assert!(bed.said().is_empty(), "{:?}", bed.said());

    bed.set(&[("operations", "all")]);
    let (snapshot, _) = bed.run(3000);
    assert_eq!(snapshot.operations.len(), 10);
    assert_eq!(
        bed.said(),
        ["member is left out: this server has no multi-valued indexes"]
    );
    is_well_formed(&mut bed);
    bed.set(&[("operations", "member")]);
    let refused = bed.refusal("run");
    assert!(refused.contains("nothing to run"), "{refused}");
}

/// A document that is written whole loses its free space; one that is updated in part keeps it.
#[test]
fn updates_by_path_are_partial_on_mysql() {
    let Some(mut bed) = bed(Flavour::MySql) else {
        return;
    };
    bed.rows("UPDATE json_documents SET doc = JSON_SET(doc, '$.padding', 'short')");
    let free = "json_documents WHERE JSON_STORAGE_FREE(doc) > 100";
    assert_eq!(bed.count(free), ROWS);
    bed.rows("CREATE TABLE before_run AS SELECT id, doc FROM json_documents");
    let changed = "json_documents AS d JOIN before_run AS b USING (id) WHERE d.doc <> b.doc";

    bed.set(&[("operations", "update"), ("storage", "json")]);
    bed.run(1000);
    let updated = bed.count(changed);
    assert!(updated > 300, "{updated}");
    assert_eq!(bed.count(free), ROWS);

    bed.set(&[("operations", "replace")]);
    bed.run(1000);
    let kept = bed.count(free);
    assert!(kept < ROWS - 300, "{kept}");
}

#[test]
fn unknown_values_are_refused() {
    let Some(mut bed) = bed(Flavour::MariaDb) else {
        return;
    };
    bed.set(&[("operations", "point,pointer")]);
    let refused = bed.refusal("run");
    assert!(refused.contains("no operation 'pointer'"), "{refused}");
    bed.set(&[("operations", "point"), ("storage", "blob")]);
    let refused = bed.refusal("run");
    assert!(
        refused.contains("storage is both, json or plain"),
        "{refused}"
    );
}
