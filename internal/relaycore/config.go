package relaycore

// Config returns what the core goes by.
func (c *Core) Config() Config { return c.cfg }
