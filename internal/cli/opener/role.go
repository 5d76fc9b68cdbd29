package opener

import (
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// RoleReads reports whether a role, with the rights that RolesSQL of the store at url grants, may
// read a table. In a store without roles, everybody may.
func RoleReads(url, role, table string) bool {
	switch {
	case IsPostgres(url):
		return pgadmin.Role(role).Reads(table)
	case isMySQL(url):
		return mysqlstore.Role(role).Reads(table)
	}
	return true
}
