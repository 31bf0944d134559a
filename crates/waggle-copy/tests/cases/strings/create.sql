CREATE TABLE t (
  id INT NOT NULL PRIMARY KEY, n INT,
  c CHAR(10), v VARCHAR(100), b VARCHAR(20) COLLATE utf8mb4_bin, u3 VARCHAR(20) CHARACTER SET utf8mb3,
  l1 VARCHAR(100) CHARACTER SET latin1, a VARCHAR(20) CHARACTER SET ascii,
  tt TINYTEXT, tx TEXT, mt MEDIUMTEXT, lt LONGTEXT,
  u2 VARCHAR(20) CHARACTER SET ucs2, u16 VARCHAR(20) CHARACTER SET utf16,
  u32 TEXT CHARACTER SET utf32, sj VARCHAR(20) CHARACTER SET sjis, gb VARCHAR(20) CHARACTER SET gbk,
  bg VARCHAR(20) CHARACTER SET big5, eu CHAR(9) CHARACTER SET euckr
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
INSERT INTO t VALUES
  (1, 0, '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', '', ''),
  (2, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL),
  (3, 0, 'NULL', 'NULL', 'NULL', 'NULL', 'NULL', 'NULL', 'NULL', '\\N', '\\N', '\\N', 'NULL',
   'NULL', 'NULL', 'NULL', 'NULL', 'NULL', 'NULL'),
  (4, 0, 'a', 'a  ', ' a ', 'a ', 'a ', 'a ', 'a ', 'a\t', 'a\n', 'a\\', 'a ', 'a ', 'a ', 'a ',
   'a ', 'a ', 'a'),
  (5, 0, '😀é', '😀😀😀', '😀', '€ü', CONVERT('üÿ' USING latin1), 'abc', '😀', '😀\0😀', '\r\n\t\\\'"',
   REPEAT('😀x', 60000), 'ĀЖ', '😀', '😀Ж', _sjis x'835C', _gbk x'815C', _big5 x'A55C', _euckr x'B0A1'),
  (6, 0, '\0', '\0\0', '\Z', '\b', '\n', '\t', '\r', ',', ';', '\\.', '\0', '\n', '\t', '\\', '\'',
   '"', '\n');
UPDATE t SET l1 = _latin1 x'00010A0D095C27225F25E4FFA0807F' WHERE id = 6;
CREATE TABLE more LIKE t;
INSERT INTO more SELECT id + 1000, n, c, v, b, u3, l1, a, tt, tx, mt, lt, u2, u16, u32, sj, gb, bg, eu
  FROM t;
