-- e=8: x
UPDATE alone SET x = 99 WHERE e = '2';
-- e=5, id=4: x
UPDATE before_id SET x = 99 WHERE e = '2' AND id = 4;
