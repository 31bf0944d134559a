-- s=18446744073709551615: x
UPDATE alone SET x = 99 WHERE x = 18;
-- s=9223372036854775811: x
UPDATE alone SET x = 98 WHERE x = 6;
-- id=12: s
UPDATE empty_member SET s = 0 WHERE id = 12;
