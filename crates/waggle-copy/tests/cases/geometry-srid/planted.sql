-- id=1: h
UPDATE t SET h = ST_SRID(h, 0) WHERE id = 1;
