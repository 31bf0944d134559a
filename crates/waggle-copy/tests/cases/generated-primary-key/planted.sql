-- my_row_id=3: b
UPDATE t SET b = '' WHERE a IS NULL;
