//! A table with every kind of column, and changes of it that a comparison must find.

/// Every kind of column both families have.
pub(super) const TYPES: &str = "
CREATE TABLE t (
  id INT NOT NULL, k VARCHAR(20) CHARACTER SET latin1 NOT NULL,
  n BIGINT UNSIGNED, z INT(8) UNSIGNED ZEROFILL, d DECIMAL(65,30), f FLOAT, g DOUBLE, h FLOAT(7,4),
  b BIT(64), y YEAR, da DATE, ti TIME(6), dt DATETIME(6), ts TIMESTAMP(6) NULL,
  c CHAR(10), v VARCHAR(300), x TEXT CHARACTER SET ucs2, l LONGBLOB, bi BINARY(8), vb VARBINARY(9),
  e ENUM('','a','b c'), s SET('x','y ','z'), p POINT, u INT GENERATED ALWAYS AS (id + 1) VIRTUAL,
  PRIMARY KEY (id, k));
INSERT INTO t (id,k,n,z,d,f,g,h,b,y,da,ti,dt,ts,c,v,x,l,bi,vb,e,s,p) VALUES
  (1,'a',18446744073709551615,7,99999999999999999999999999999999999.5,21666.66,1e-17,21.66666,
   18446744073709551615,2155,'9999-12-31','-838:59:59','0000-00-00','2038-01-19 03:14:07.999999',
   'a','b ','c',x'00',x'01','x','a','x,z',ST_GeomFromText('POINT(1 2)')),
  (2,'B',0,0,-0.000000000000000000000000000001,-3.4e38,5e-324,0,0,0,'0000-00-00','00:00:00.000001',
   '2021-00-00 00:00:00','1970-01-01 00:00:01','','','','','','','','',NULL),
  (3,'\\t''',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,
   NULL,NULL,NULL,NULL),
  (4,'NULL',1,1,1,1.5,1.5,1.5,1,1901,'2020-02-29','12:00:00','2020-02-29 12:00:00.5',
   '2020-02-29 12:00:00.5','NULL','NULL','NULL','NULL','NULL','NULL','nope','y',NULL);
";

/// A change of one value, and the column that it changes.
pub(super) const PLANTED: [(&str, &str); 24] = [
    ("n", "UPDATE t SET n = n - 1 WHERE id = 1"),
    ("z", "UPDATE t SET z = 8 WHERE id = 1"),
    ("d", "UPDATE t SET d = 0 WHERE id = 2"),
    ("f", "UPDATE t SET f = 21666.662 WHERE id = 1"),
    ("g", "UPDATE t SET g = 2e-17 WHERE id = 1"),
    ("g", "UPDATE t SET g = 0 WHERE id = 2"),
    ("h", "UPDATE t SET h = 21.6668 WHERE id = 1"),
    ("b", "UPDATE t SET b = b'1' WHERE id = 2"),
    ("y", "UPDATE t SET y = 2000 WHERE id = 2"),
    ("da", "UPDATE t SET da = NULL WHERE id = 2"),
    ("ti", "UPDATE t SET ti = '-838:59:58' WHERE id = 1"),
    ("dt", "UPDATE t SET dt = '2021-00-01' WHERE id = 2"),
    (
        "ts",
        "UPDATE t SET ts = '2038-01-19 03:14:07.999998' WHERE id = 1",
    ),
    ("c", "UPDATE t SET c = NULL WHERE id = 2"),
    ("v", "UPDATE t SET v = 'b' WHERE id = 1"),
    ("v", "UPDATE t SET v = NULL WHERE id = 2"),
    ("x", "UPDATE t SET x = 'C' WHERE id = 1"),
    ("l", "UPDATE t SET l = '' WHERE id = 1"),
    ("bi", "UPDATE t SET bi = x'0100000000000001' WHERE id = 1"),
    ("vb", "UPDATE t SET vb = x'00' WHERE id = 2"),
    // The error value and the empty member read alike.
    ("e", "UPDATE t SET e = 'nope' WHERE id = 2"),
    ("s", "UPDATE t SET s = 'x' WHERE id = 1"),
    (
        "p",
        "UPDATE t SET p = ST_GeomFromText('POINT(1 3)') WHERE id = 1",
    ),
    (
        "p",
        "UPDATE t SET p = ST_GeomFromText('POINT(0 0)') WHERE id = 2",
    ),
];
