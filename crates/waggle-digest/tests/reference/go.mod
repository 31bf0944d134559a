module waggle/fingerprint-reference

go 1.21
