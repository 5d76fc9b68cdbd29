-- fragment: replace_response
-- The column that decides is assigned last.
ON DUPLICATE KEY UPDATE response = CASE WHEN expires_at <= {now} THEN VALUES(response) ELSE response END,
       expires_at = CASE WHEN expires_at <= {now} THEN VALUES(expires_at) ELSE expires_at END
