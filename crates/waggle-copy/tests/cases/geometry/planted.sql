-- id=1002: g
UPDATE t SET g = ST_GeomFromText('POINT(-1e300 2e-300)') WHERE id = 1002;
-- id=3: p
UPDATE t SET p = NULL WHERE id = 3;
