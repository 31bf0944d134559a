-- id=3: v
UPDATE t SET v = STRING_TO_VECTOR('[1.5,0,3.4e38]') WHERE id = 3;
